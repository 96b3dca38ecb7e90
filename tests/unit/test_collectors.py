"""Two owners collect changes at once, and each is interrupted at any of its acts."""

import threading
from pathlib import Path
from typing import Final

import pytest

from replication.config.changes import Change
from replication.model import Flow
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles

FLOW = Flow("A", "B")
CHANGES: Final = 3
MOST_ACTS: Final = 10
SECONDS: Final = 60.0
"""For what takes an instant: only a mistake of this test lasts as long."""


def pause(topic: str) -> Change:
    return Change(FLOW, "pause", (topic,), by="ann@desk", at="2026-11-26T19:00:00.000Z")


class InSteps(LocalFiles):
    """Waits before its act number *stop*, counted from 1, until it may go on."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self._stop, self._count = stop, 0
        self.waits, self.may_go = threading.Event(), threading.Event()

    def _step(self) -> None:
        self._count += 1
        if self._count == self._stop:
            self.waits.set()
            assert self.may_go.wait(SECONDS)

    def find(self, prefix: str) -> list[str]:
        self._step()
        return super().find(prefix)

    def create(self, path: str, text: str = "") -> None:
        self._step()
        super().create(path, text)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)


class Collector(threading.Thread):
    """An owner that collects all changes, in a thread that stands still before one of its acts."""

    def __init__(self, folder: Path, stop: int) -> None:
        super().__init__(daemon=True)
        self._files = InSteps(stop)
        self._changes = ChangeFiles(self._files, folder.as_uri(), FLOW)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._changes.collect(1)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._files.waits.set()

    def begin(self) -> None:
        """Returns once it stands still, or has ended."""
        self.start()
        assert self._files.waits.wait(SECONDS)

    def end(self) -> None:
        self._files.may_go.set()
        self.join(SECONDS)
        assert not self.is_alive()
        assert self.error is None, self.error


@pytest.mark.parametrize("first", range(1, MOST_ACTS + 1))
@pytest.mark.parametrize("is_last", [True, False])
def test_no_change_is_lost_wherever_two_collectors_meet(
    tmp_path: Path, first: int, *, is_last: bool
) -> None:
    for second in range(1, MOST_ACTS + 1):
        folder = tmp_path / str(second)
        changes = ChangeFiles(LocalFiles(), folder.as_uri(), FLOW)
        for number in range(CHANGES):
            changes.write(pause(f"t{number}"))
        changes.collect(1)  # there is a base already
        changes.write(pause("later"))
        one, other = Collector(folder, first), Collector(folder, second)
        one.begin()
        other.begin()
        for each in (one, other) if is_last else (other, one):
            each.end()

        kept = ChangeFiles(LocalFiles(), folder.as_uri(), FLOW).read().changes
        assert [each.number for each in kept] == [1, 2, 3, 4], f"{first} and {second}"


@pytest.mark.parametrize("act", range(1, MOST_ACTS + 1))
def test_no_change_is_lost_whenever_a_collector_is_killed(tmp_path: Path, act: int) -> None:
    changes = ChangeFiles(LocalFiles(), tmp_path.as_uri(), FLOW)
    for number in range(CHANGES):
        changes.write(pause(f"t{number}"))
    killed = Collector(tmp_path, act)
    killed.begin()  # and it never goes on

    kept = ChangeFiles(LocalFiles(), tmp_path.as_uri(), FLOW).read().changes
    assert [each.number for each in kept] == [1, 2, 3]
    ChangeFiles(LocalFiles(), tmp_path.as_uri(), FLOW).collect(1)
    kept = ChangeFiles(LocalFiles(), tmp_path.as_uri(), FLOW).read().changes
    assert [each.number for each in kept] == [1, 2, 3]
    killed.end()
