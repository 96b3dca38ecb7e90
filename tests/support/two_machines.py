"""Two processes of one flow that stand for two machines: the same tables, other lock files."""

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
    _share_tables(first.with_name("state"), second.with_name("state"))
    return first, second


def _share_tables(first: Path, second: Path) -> None:
    """Makes the tables of *second* those of *first*; each keeps lock files of its own."""
    second.mkdir()
    for table in SCHEMAS:
        (first / table).mkdir(parents=True)
        (second / table).symlink_to(first / table)
