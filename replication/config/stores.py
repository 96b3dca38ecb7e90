"""The key stores and trust stores that a configuration names, and whether they are there."""

from pathlib import Path
from typing import Final

from replication.config.tree import MirrorConfig

_STORES: Final = ("ssl.truststore.location", "ssl.keystore.location")


def missing_files(config: MirrorConfig) -> list[str]:
    """A line for each store that this user cannot read on this machine."""
    missing: dict[str, None] = {}
    for flow in config.flows:
        for cluster in (flow.source, flow.target):
            if not cluster.admin.get("security.protocol", "").upper().endswith("SSL"):
                continue
            for key in _STORES:
                path = cluster.admin.get(key)
                if path and not _is_readable(path):
                    missing[f"{cluster.alias}.{key}: cannot read {path!r}; check the path"] = None
    return list(missing)


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb"):
            return True
    except (OSError, ValueError):
        return False
