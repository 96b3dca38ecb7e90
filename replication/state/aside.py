"""A damaged table without positions is moved aside, so that its flow goes on with a new one."""

import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from py4j.protocol import Py4JError

from replication.state.commit_lock import hold_commit_lock
from replication.state.request_files import RequestFiles

EXPENDABLE: Final = frozenset({"events", "executions", "figures", "leases"})
"""Without their old rows no record is lost, repeated or translated wrongly."""

MARK: Final = ".damaged-"
SETTLE_SECONDS: Final = 1.0
"""How long a claim must stand before it counts: another process may be writing its own."""

ABANDONED_SECONDS: Final = 60.0
"""How long others wait for the end of a claim; its owner moves a few files."""

MOST_FAILURES: Final = 5
"""Of reads and writes for one claim; then it is the storage that fails."""


class Aside(Protocol):
    """One table that may be moved aside. Its methods raise the errors of the storage."""

    def alone(self) -> AbstractContextManager[None]:
        """Lets one thread at a time, of whichever process, into the block."""

    def move(self) -> str:
        """Gives the table's folder another name, and returns that."""

    def has_moved(self) -> bool:
        """Returns whether an earlier table of this name was moved, and is still there."""


class LocalAside(Aside):
    """A table in a *folder* of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def alone(self) -> AbstractContextManager[None]:
        """Holds a kernel lock."""
        return hold_commit_lock(self._folder.parent / "_locks" / f"{self._folder.name}.aside")

    def move(self) -> str:
        """Renames the folder."""
        return str(self._folder.rename(_new_name(str(self._folder))))

    def has_moved(self) -> bool:
        """Returns whether a renamed folder lies there."""
        return any(self._folder.parent.glob(f"{self._folder.name}{MARK}*"))


class RemoteAside(Aside):
    """A table at the URI *path* of any storage; object stores have neither locks nor renames.

    A claim is a small file with its owner's name. Of several that are written at once the last one
    stays, and each owner reads it again before it acts. Whoever acts looks at the table first.
    """

    def __init__(self, files: RequestFiles, path: str, settle_seconds: float) -> None:
        self._files = files
        self._path = path
        self._settle_seconds = settle_seconds
        root, _, table = path.rpartition("/")
        self._claim = f"{root}/_control/aside-{table}"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the claim, once its last owner has ended or was silent for long."""
        self._take(uuid.uuid4().hex)
        try:
            yield
        finally:
            with suppress(OSError, Py4JError):  # it is taken for abandoned then
                self._files.delete(self._claim)

    def move(self) -> str:
        """Renames the folder; an object store copies what is in it, and then deletes that."""
        name = _new_name(self._path)
        self._files.rename(self._path, name)
        return name

    def has_moved(self) -> bool:
        """Returns whether a renamed folder lies there."""
        return bool(self._files.find(f"{self._path}{MARK}"))

    def _take(self, mine: str) -> None:
        other, since, failures = "", time.monotonic(), 0
        while True:
            try:
                found = self._files.read(self._claim)
                if found == mine:
                    return
                if found != other:
                    other, since = found, time.monotonic()
                if not found or time.monotonic() - since >= ABANDONED_SECONDS:
                    self._files.create(self._claim, mine)
            except (OSError, Py4JError):  # on HDFS, of two that write it one fails
                failures += 1
                if failures == MOST_FAILURES:
                    raise
            time.sleep(self._settle_seconds)


def _new_name(path: str) -> str:
    return f"{path}{MARK}{time.time_ns()}"
