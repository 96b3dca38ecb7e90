"""Flat settings of one, two and three clusters, and what parsing them gives."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from replication.config.file import load
from replication.config.parse import parse
from replication.config.tree import MirrorConfig
from replication.config.values import Raw
from replication.errors import ConfigError

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TWO_CLUSTERS: Mapping[str, Raw] = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
}
ONE_FLOW: Mapping[str, Raw] = {**TWO_CLUSTERS, "A->B.enabled": "true"}


def parse_settings(settings: Mapping[str, Raw]) -> MirrorConfig:
    """The configuration of a file that holds *settings*."""
    return parse("c.yaml", settings, default_state_dir="/state")


def load_file(
    folder: Path, content: str | bytes, name: str = "c.yaml", **environ: str
) -> MirrorConfig:
    """The configuration of a file called *name* with that *content*."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(folder / name, environ=environ, default_state_dir="/state")


def problems_of(settings: Mapping[str, Raw], lines: Mapping[str, int] | None = None) -> list[str]:
    """The problems for which *settings* are rejected."""
    with pytest.raises(ConfigError) as caught:
        parse("c.yaml", settings, default_state_dir="/state", lines=lines)
    return list(caught.value.problems)
