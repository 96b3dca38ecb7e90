"""Two processes of one flow that stand for two machines: one state, but lock files of their own."""

from collections.abc import Mapping
from pathlib import Path

from replication.model import Flow
from replication.state.schemas import SCHEMAS
from tests.support.local import Clusters
from tests.support.mirror_files import write_config


def write_two_configs(
    folder: Path, clusters: Clusters, topics: str, more: Mapping[str, object], flow: Flow
) -> tuple[Path, Path]:
    """Writes a configuration for each machine; arguments as of `write_config`."""
    paths = []
    for name in ("first", "second"):
        (folder / name).mkdir()
        paths.append(write_config(folder / name, clusters, topics, more, flow))
    first, second = paths
    _share_state(first.with_name("state"), second.with_name("state"))
    return first, second


def _share_state(first: Path, second: Path) -> None:
    """Makes tables and requests of *second* those of *first*; each keeps lock files of its own."""
    second.mkdir()
    for name in (*SCHEMAS, "_control"):
        (first / name).mkdir(parents=True)
        (second / name).symlink_to(first / name)
