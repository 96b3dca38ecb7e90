"""The demo as a user keeps it running: ``python -m replication demo --keep``."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.local import PYTHON
from tests.support.running_process import RunningProcess
from tests.support.waiting import wait_until

START_SECONDS = 240.0


class KeptDemo:
    """A demo that runs, by what it prints."""

    def __init__(self, process: RunningProcess, log: Path) -> None:
        self.process = process
        self._log = log

    def printed(self, pattern: str, seconds: float = START_SECONDS) -> str:
        """Waits for a line with *pattern*, and returns its first group."""
        found: list[str] = []

        def look() -> bool:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            found[:] = re.findall(pattern, text, re.MULTILINE)
            return bool(found)

        wait_until(self.process.while_running(look), seconds)
        return found[0]

    def page(self) -> str:
        """The address of its page, once it is printed."""
        return self.printed(r"^Its page: (http://\S+)$")


@contextmanager
def kept_demo(folder: Path, seconds: int) -> Iterator[KeptDemo]:
    """The demo, whose producers run for *seconds*, for the block."""
    log = folder / "demo.log"
    command = [str(PYTHON), "-m", "replication", "demo", "--keep", "--seconds", str(seconds)]
    with RunningProcess("the demo", command, log) as process:
        yield KeptDemo(process, log)
