"""Reads what operators have changed of one flow, for a command that has no Spark."""

from replication.config.state_access import StateAccess
from replication.config.steering import Steering
from replication.model import Flow
from replication.state.change_files import Applied, ChangeFiles
from replication.state.open_files import open_files
from replication.state.open_storage import storage_for


def read_changes(access: StateAccess, flow: Flow) -> tuple[Steering, Applied | None]:
    """Returns what the changes of *flow* come to, and which its process has said are in force.

    Raises:
        StateError: The state directory cannot be read.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        changes = ChangeFiles(files, access.state_dir, flow)
        return changes.read(), changes.applied()
