"""Reads the state of a flow when a process that runs it has written its offset map."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replication.config.tree import FlowConfig, MirrorConfig
from replication.foreign_json import in_json
from replication.state.claim import instance_id
from replication.state.folder import local_path
from replication.state.readers import open_reader
from replication.state.requests import await_written
from replication.state.table_reader import StateReader


@dataclass(frozen=True, slots=True)
class Process:
    """The process that ran a flow last.

    Args:
        host: Its machine.
        since: When it took the flow.
        released: When it gave it back; None if it still has it, or was killed.
        machine: Of it and its lock file, as a claim names them; None where that is not known.
    """

    host: str
    since: datetime
    released: datetime | None
    machine: str | None = field(default=None, metadata=in_json(""))

    def instance(self, state_dir: str) -> str | None:
        """Returns its static id in the group of a lease, if it ran with that *state_dir*."""
        host = self.host.partition(",")[0]
        return instance_id(host, state_dir, self.machine) if self.machine else None


def last_process(leases: Iterable[Mapping[str, Any]]) -> Process | None:
    """Returns the process that took the lease last, by the flow's rows of the table ``leases``."""
    rows = sorted(leases, key=lambda row: (row["epoch"], row["renewed"]))
    if not rows:
        return None
    last = rows[-1]
    first = next(row for row in rows if row["epoch"] == last["epoch"])
    # a standby's column ``since`` is older: it waited before it took the lease
    released = last["renewed"] if last["released"] else None
    return Process(last["host"], first["renewed"], released, last.get("machine"))


@contextmanager
def open_written(
    mirror: MirrorConfig, config: FlowConfig
) -> Iterator[tuple[StateReader, tuple[str, ...]]]:
    """Yields the state, and why its offset map may be older than a running job's, if it may be.

    Raises:
        StateError: The tables cannot be read.
    """
    doubt = await_written(mirror.state_dir, config.flow)
    with open_reader(mirror.access) as state:
        if local_path(mirror.state_dir) is None:
            process = last_process(state.rows("leases", config.flow))
            if process is not None and process.released is None:
                seconds = config.state.write_interval_seconds
                doubt = (
                    f"the offset map is read from a remote state.dir: if {process.host} still runs "
                    f"{config.flow}, it may be {seconds} s old"
                )
        yield state, (doubt,) if doubt else ()
