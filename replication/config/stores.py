"""The key stores and trust stores that a configuration names, and whether they are there."""

from pathlib import Path
from typing import Final

from replication.config.tree import MirrorConfig

_STORES: Final = ("ssl.truststore.location", "ssl.keystore.location")


def missing_files(config: MirrorConfig) -> list[str]:
    """Returns a line for each store that this user cannot read on this machine."""
    missing: dict[str, None] = {}
    clients = [
        (cluster.alias, cluster.admin)
        for flow in config.flows
        for cluster in (flow.source, flow.target)
    ]
    for alias, admin in [*clients, *((pair.alias, pair.admin) for pair in config.heartbeats)]:
        if not admin.get("security.protocol", "").upper().endswith("SSL"):
            continue
        for key in _STORES:
            path = admin.get(key)
            if path and not _is_readable(path):
                missing[f"{alias}.{key}: cannot read {path!r}; check the path"] = None
    return list(missing)


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb"):
            return True
    except (OSError, ValueError):
        return False
