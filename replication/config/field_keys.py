"""Keys of older MirrorMaker 2 versions and of Cloudera's SRM, translated into today's. Pure.

SRM prefixes worker keys with ``workers.`` and connector keys with ``connectors.``, at top level and
after a flow's name. MirrorMaker 2 3.9 still reads the ``blacklist`` keys that 4.0 removed. What is
left are the chains of Kafka Connect's transforms, which many keys describe together.
"""

from collections.abc import Collection, Mapping
from typing import Final

from replication.config.client_properties import client_property
from replication.config.clients.java_keys import SECURITY
from replication.config.connect_chains import read_chains
from replication.config.ignored import REMOVED, WORKER_KEY
from replication.config.values import Diagnostics, Raw, items

SRM_TARGET: Final = "streams.replication.manager.driver.target.cluster"
TARGETS: Final = "replication.target.clusters"


def translate(diagnostics: Diagnostics, settings: Mapping[str, Raw]) -> dict[str, Raw]:
    """Renames the keys of *settings* to today's.

    Each translation is noted; messages show the written key.
    """
    aliases = items(settings.get("clusters", ""))
    translated: dict[str, Raw] = {}
    for key, raw in settings.items():
        new = _without_srm_prefix(diagnostics, key, aliases)
        if new is None:
            continue
        new = _today(new, aliases)
        if new != key and new in settings:
            diagnostics.unused(key, f"has no effect: {new} is given as well and wins", warns=True)
            continue
        if new != key:
            diagnostics.written[new] = key
            diagnostics.note(key, f"is read as {new}")
        translated[new] = raw
    return read_chains(diagnostics, translated, {key: scope_of(key, aliases) for key in translated})


def scope_of(key: str, aliases: Collection[str]) -> str:
    """Returns the part of *key* that names a cluster or flow, with its dot; empty at top level."""
    source, arrow, rest = key.rpartition("->")
    found = [alias for alias in aliases if rest.startswith(f"{alias}.")]
    alias = max(found, key=len, default=None)
    return "" if alias is None else f"{source}{arrow}{alias}."


def _without_srm_prefix(diagnostics: Diagnostics, key: str, aliases: Collection[str]) -> str | None:
    """Returns *key* without ``workers.`` or ``connectors.``; None for one without effect."""
    scope = scope_of(key, aliases)
    prefix, _, name = key[len(scope) :].partition(".")
    if prefix == "connectors":
        return scope + name
    if prefix != "workers":
        return key
    if name in SECURITY or client_property(name) is not None:
        return scope + name  # the worker's producer writes the data
    diagnostics.unused(key, f"has no effect: {WORKER_KEY}")
    return None


def _today(key: str, aliases: Collection[str]) -> str:
    if key == SRM_TARGET:
        return TARGETS
    scope = scope_of(key, aliases)
    return scope + REMOVED.get(key[len(scope) :], key[len(scope) :])
