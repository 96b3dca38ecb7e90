"""Asks the process that runs a flow to write its offset map now, for a command that reads it.

The map in the process's memory is ahead of its table by up to ``state.write.interval.seconds``. On
a remote state directory nobody asks: each poll for requests would be a billed call.
"""

import time
from contextlib import suppress
from typing import Final

from replication.errors import StateError
from replication.model import Flow
from replication.state.job_lock import find_job_owner
from replication.state.paths import local_path
from replication.state.request_files import LocalFiles
from replication.state.requests import RequestChannel, new_path, request

LOOK_SECONDS: Final = 0.5
"""Between two looks of the process for requests."""

PATIENCE_SECONDS: Final = 10.0
"""How long a command waits: the process confirms what it writes by two looks at the topics."""

POLL_SECONDS: Final = 0.1


class WriteRequests:
    """The requests to one flow that this process runs.

    Args:
        channel: Where requests are.
        flow: The flow.
    """

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow
        self._is_local = local_path(channel.state_dir) is not None
        self._look_at = 0.0

    def find(self) -> list[str]:
        """Returns the paths of the requests; none where the last look was just now."""
        if not self._is_local or time.monotonic() < self._look_at:
            return []
        self._look_at = time.monotonic() + LOOK_SECONDS
        return [found.path for found in self._channel.find("write", self._flow)]

    def answer(self, path: str) -> None:
        """Says that the map is written: the answer to a request is that it is gone."""
        self._channel.remove(path)


def await_written(state_dir: str, flow: Flow, patience_seconds: float = PATIENCE_SECONDS) -> str:
    """Asks the process that runs *flow*, if there is one, to write its map, and waits for that.

    Returns:
        Why the table may be older than the map in memory; empty if it is not, or nobody is asked.
    """
    if local_path(state_dir) is None:
        return ""
    files, path = LocalFiles(), new_path(state_dir, "write", flow)
    try:
        owner = find_job_owner(state_dir, flow)
        if owner is None:
            return ""
        files.create(path, request().text())
    except (OSError, StateError) as error:
        return f"the process that runs {flow} cannot be asked to write its offset map: {error}"
    deadline = time.monotonic() + patience_seconds
    while files.exists(path):
        if time.monotonic() >= deadline:
            with suppress(OSError):
                files.delete(path)
            return (
                f"{owner} has not written its offset map within {patience_seconds:g} s: what is "
                "read here may be older, by state.write.interval.seconds or by an outage"
            )
        time.sleep(POLL_SECONDS)
    return ""
