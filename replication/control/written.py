"""Reads the state of a flow when a process that runs it has written its offset map."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.last_process import last_process
from replication.state.paths import local_path
from replication.state.readers import open_reader
from replication.state.table_reader import StateReader
from replication.state.write_requests import await_written


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
