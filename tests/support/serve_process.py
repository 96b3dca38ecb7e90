"""`replication serve FILE` as a process of its own, as a user starts it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.local import PYTHON
from tests.support.running_process import RunningProcess
from tests.support.serving import Served
from tests.support.waiting import wait_until

START_SECONDS = 60.0


@contextmanager
def serve_process(file: Path, log: Path) -> Iterator[tuple[Served, RunningProcess]]:
    """Runs `serve` of *file* for the block; yields it once it listens, whatever it has heard."""
    command = [str(PYTHON), "-m", "replication", "serve", str(file)]
    with RunningProcess("serve", command, log) as process:

        def address() -> str:
            text = log.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"event=serving text=(http://\S+)/$", text, re.MULTILINE)
            return found[1] if found else ""

        wait_until(process.while_running(address), START_SECONDS)
        yield Served(address()), process
