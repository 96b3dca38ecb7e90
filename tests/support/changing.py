"""A process that changes a flow, as one of many at once: ``python -m tests.support.changing``."""

import sys
from pathlib import Path

from replication.control.overrides import new_change
from replication.model import Flow
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles


def write(state: Path, flow: Flow, writer: str, count: int) -> None:
    """Makes *count* changes, each of an item of its own."""
    changes = ChangeFiles(LocalFiles(), state.as_uri(), flow)
    for number in range(count):
        changes.write(new_change(flow, "groups.add", [f"w{writer}.{number}"]))


if __name__ == "__main__":
    folder, source, target, name, most = sys.argv[1:]
    write(Path(folder), Flow(source, target), name, int(most))
