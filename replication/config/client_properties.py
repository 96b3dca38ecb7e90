"""The effective properties of every Kafka client of a flow, by MirrorMaker 2's precedence. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from replication.config.clients.java_keys import BY_ROLE, CHOICES, JAVA_KEYS, OWNED, SECURITY, Role
from replication.config.clients.secrets import ClientProperties
from replication.config.ignored import inert_reason
from replication.config.keys import KEYS
from replication.config.values import Diagnostics, Raw, closest, text
from replication.model import Location

_CLIENT: Final = re.compile(
    r"(?:producer\.override|(?:(?:source|target)\.)?(?P<role>consumer|producer|admin)"
    r"|(?:source|target)\.cluster)\.(?P<name>.+)"
)
_HOST_PORT: Final = re.compile(
    r"(?:[A-Za-z]\w*://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(\d{1,5})"
)
_NUMERIC: Final = re.compile(r".*\.(?:ms|bytes|records|size|memory)")
_PORTS: Final = range(1, 65536)


def client_property(key: str) -> tuple[Role | None, str] | None:
    """Client and property that *key* (its scope taken off) sets; None for no client's key.

    ``consumer.x`` is ("consumer", "x"), ``source.cluster.x`` is (None, "x"): every client.
    """
    match = _CLIENT.fullmatch(key)
    if match is None or key in KEYS or inert_reason(key) is not None:
        return None
    role = match["role"] or ("producer" if key.startswith("producer.override.") else None)
    return role, match["name"]  # type: ignore[return-value]  # the pattern holds roles only


def effective(
    top: Mapping[str, Raw],
    cluster: Mapping[str, Raw],
    flow: Mapping[str, Raw],
    *,
    side: Location,
    role: Role,
) -> ClientProperties:
    """Properties of the *role* client of the flow's *side*, in Java's key space.

    Later wins: top level (bare security keys, then ``role.``, ``side.role.``), the cluster's bare
    keys, the flow's ``side.cluster.`` and ``role.``, the cluster's ``role.``, the flow's
    ``side.role.``. MirrorMaker 2 drops the top-level forms, bare keys other than addresses and
    security, and lets a cluster's bare security key beat the flow's ``role.``; the rest is its own.
    On the data producer the flow's ``producer.override.`` beats all.
    """
    data_producer = side == "target" and role == "producer"
    layers = [
        {key: value for key, value in top.items() if key in SECURITY},
        _under(top, f"{role}."),
        _under(top, "producer.override.") if data_producer else {},
        _under(top, f"{side}.{role}."),
        _bare(cluster, role),
        _under(flow, f"{side}.cluster."),
        _under(flow, f"{role}."),
        _under(cluster, f"{role}."),
        _under(flow, f"{side}.{role}."),
        _under(flow, "producer.override.") if data_producer else {},
    ]
    merged = {key: text(value).strip() for layer in layers for key, value in layer.items()}
    merged.pop("group.id", None)  # positions are ours: no group is joined, none committed
    return ClientProperties(merged)


def check_property(findings: Diagnostics, key: str, role: Role | None, name: str, raw: Raw) -> None:
    """Says what is wrong with the client property *name* that *key* sets to *raw*."""
    value, known = text(raw).strip(), BY_ROLE[role] if role else JAVA_KEYS
    shown = findings.shown(key, raw)
    if name in OWNED:
        findings.problem(key, f"cannot be set: {OWNED[name]}")
    elif name == "bootstrap.servers":
        _check_servers(findings, key, value)
    elif name in CHOICES:
        given = value.upper() if name == "security.protocol" else value
        if given not in CHOICES[name]:
            findings.problem(key, f"{shown} is not possible; write {' or '.join(CHOICES[name])}")
        elif name == "acks" and value not in ("all", "-1"):
            findings.note(key, "with fewer acknowledgements a broker's crash can lose records")
    elif name == "group.id":
        findings.note(key, "has no effect: the mirror reads without a consumer group")
    elif name not in known:
        _check_unknown(findings, key, name, known)
    elif _NUMERIC.fullmatch(name) and not re.fullmatch(r"-?\d+", value):
        findings.problem(key, f"{shown} is not a whole number")


def _check_unknown(findings: Diagnostics, key: str, name: str, known: frozenset[str]) -> None:
    if (other := closest(name, known, 0.8)) is not None:
        findings.problem(key, f"no property of this client; did you mean {other!r}?")
    elif name in JAVA_KEYS:
        findings.problem(key, "a property of another kind of client; remove it here")
    else:
        findings.note(key, "not a property this program knows; passed to the client as it is")


def _check_servers(findings: Diagnostics, key: str, value: str) -> None:
    for server in value.split(","):
        match = _HOST_PORT.fullmatch(server.strip())
        if match is None or int(match[1]) not in _PORTS:
            findings.problem(
                key,
                f"{findings.shown(key, server.strip())} is not host:port; write for example "
                "broker-1:9092,broker-2:9092",
            )


def _under(settings: Mapping[str, Raw], start: str) -> dict[str, Raw]:
    return {
        key[len(start) :]: value
        for key, value in settings.items()
        if key.startswith(start)
        and client_property(key) is not None
        and not (start == "producer." and key.startswith("producer.override."))
    }


def _bare(cluster: Mapping[str, Raw], role: Role) -> dict[str, Raw]:
    """The cluster's keys for all its clients, as far as this one knows them."""
    return {
        key: value
        for key, value in cluster.items()
        if client_property(key) is None
        and inert_reason(key) is None
        and (key in BY_ROLE[role] or key not in JAVA_KEYS)
    }
