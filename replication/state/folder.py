"""Whether a local state.dir is still the folder in which this process began.

A folder that was moved away, or a file system that is no longer mounted, is not made again: what is
written to the disk beneath is missed later, and commands that look there find no job.
"""

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import unquote, urlparse

from replication.errors import NoAnswerError, StateError
from replication.model import RECORDS, Flow, Job


def local_path(state_dir: str) -> Path | None:
    """Returns the folder of a ``file:`` state directory, None for any other kind."""
    parts = urlparse(state_dir)
    return Path(unquote(parts.path)) if parts.scheme in {"", "file"} else None


def make_private(folder: Path) -> None:
    """Creates *folder* and those above it that are missing, for this user only.

    The tables hold names of topics, offsets and, after an incident, texts of clusters.
    """
    missing = [folder, *folder.parents]
    for path in reversed([path for path in missing if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)


def job_name(flow: Flow, job: Job) -> str:
    """Returns the name of *job*'s files for *flow*. The jobs that carry records share one."""
    return flow.slug if job in RECORDS else f"{flow.slug}-{job}"


MARK: Final = "state-id"
PROBE_SECONDS: Final = 1.0
"""How long a process that has just made the mark may take to write it."""

RETRY_SECONDS: Final = 0.02


class StateFolder:
    """One process's view of *folder*. Threads share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = folder / "_locks" / MARK
        self._id = ""
        self._lock = Lock()

    def begin(self) -> None:
        """Makes the folder if this process has not begun in it yet; else as `check`.

        Raises:
            StateError: It cannot be made, is gone, or is another one.
        """
        with self._lock:
            if not self._id:
                self._id = self._made()
                return
        self.check()

    def check(self) -> None:
        """Makes sure that the folder is the one in which this process began, if it has.

        Raises:
            StateError: It is gone, or is another one.
        """
        if not self._id:
            return
        try:
            found = self._mark.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            found, reason = "", f"{error}"
        else:
            reason = f"its {self._mark.relative_to(self._folder)} is another one"
        if found != self._id:
            raise StateError(
                f"state.dir {self._folder} is no longer the folder in which this process began "
                f"({reason}): put it back, or mount its file system again; it is not made anew"
            )

    def is_there(self) -> bool:
        """Returns whether `check` finds nothing wrong."""
        try:
            self.check()
        except StateError:
            return False
        return True

    def _made(self) -> str:
        """Returns the folder's mark, which is made if it is missing."""
        try:
            make_private(self._mark.parent)
            with suppress(FileExistsError), self._mark.open("x", encoding="utf-8") as file:
                file.write(uuid.uuid4().hex)
            deadline = time.monotonic() + PROBE_SECONDS
            while not (found := self._mark.read_text(encoding="utf-8")):
                if time.monotonic() > deadline:  # its maker had no space left, or has died
                    self._mark.write_text(found := uuid.uuid4().hex, encoding="utf-8")
                    return found
                time.sleep(RETRY_SECONDS)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StateError(
                f"cannot write {self._mark}: {reason}; check that state.dir exists, is writable "
                "and has space"
            ) from error
        return found


def check_begun(state_dir: str) -> None:
    """Makes sure that a job ever began with *state_dir*; else that none runs would be a guess.

    Raises:
        NoAnswerError: None did with the local folder as it is here.
        StateError: The folder cannot be read.
    """
    folder = local_path(state_dir)
    try:
        is_used = folder is None or (folder.is_dir() and any(folder.iterdir()))
    except OSError as error:
        raise StateError(f"cannot read state.dir {folder}: {error.strerror}") from error
    if not is_used:
        raise NoAnswerError(
            f"no job ever began with state.dir {folder} as it is here. If one should have, its "
            "file system is not mounted, or the folder was moved: a job may run all the same"
        )


# Does once what a job does in a state directory on this machine; leaves nothing behind.

TRIED_BYTES: Final = 2**18
"""A disk that is full, or a quota that is used up, may still take a few bytes."""

NOTHING_MB: Final = 64
STEP: Final = "check that state.dir is writable by this user, and that its disk is well"
SPACE_STEP: Final = "free space on that disk, or name another folder in state.dir"


def existing(folder: Path) -> Path:
    """Returns *folder*, or the nearest one above it that is there, in which a job makes it."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def folder_obstacle(folder: Path) -> tuple[str, str]:
    """Returns why a job cannot keep its state in *folder*, and the next step; twice "" if none."""
    above = existing(folder)
    try:
        try_folder(above)
        left = free_mb(above)
    except OSError as error:
        return f"cannot be used: {error.strerror or error}", STEP
    if left < NOTHING_MB:
        return f"has only {left} MB of free space", SPACE_STEP
    return "", ""


def free_mb(folder: Path) -> int:
    """Returns the free space of the disk of *folder*.

    Raises:
        OSError: It is not known.
    """
    return shutil.disk_usage(folder).free // 2**20


def try_folder(folder: Path) -> None:
    """Writes, locks, renames and lists a file in *folder*, which is on this machine."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as made:
        first, second = Path(made, "first"), Path(made, "second")
        with first.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write("x" * TRIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
        first.replace(second)
        if list(Path(made).iterdir()) != [second]:
            raise OSError(f"a renamed file is not listed in {made}")
