"""Does once what a job does in a state directory on this machine; leaves nothing behind."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

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
    """Writes, locks, renames and lists a file in *folder*, which is on this machine.

    Raises:
        OSError: Something of it fails.
    """
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
