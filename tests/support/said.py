"""What the log says, by events and fields: the form of its lines may change, these may not."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Said(NamedTuple):
    """One line. ``text`` is empty if it has none, and ``flow`` if it concerns no flow."""

    event: str
    level: str
    flow: str
    text: str
    fields: dict[str, object]


class SaidLines(logging.Handler):
    """The lines since the test began, or since `forget`."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._all: list[Said] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line of the product's; those of libraries have no event."""
        line: Any = record.msg
        if event := getattr(line, "event", ""):
            flow, text = line.flow or "", line.text or ""
            self._all.append(Said(event, record.levelname, flow, text, dict(line.fields)))

    def of(self, event: str) -> list[Said]:
        """The lines of *event*, oldest first."""
        return [line for line in self._all if line.event == event]

    def forget(self) -> None:
        """Forgets the lines so far."""
        self._all.clear()


@contextmanager
def said_lines() -> Iterator[SaidLines]:
    """The lines of the block, of every level."""
    log, said = logging.getLogger("replication"), SaidLines()
    level = log.level
    log.addHandler(said)
    log.setLevel(logging.DEBUG)
    try:
        yield said
    finally:
        log.removeHandler(said)
        log.setLevel(level)
