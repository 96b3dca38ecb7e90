"""The folder of this process's files: held while it runs, and those of dead processes removed."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from replication.config.home import run_folder

LOCK: Final = "lock"


@contextmanager
def hold_run_folder() -> Iterator[None]:
    """Holds the folder's lock for the block, and removes what killed processes have left.

    The script removes the folder of a job that ends. Nothing else would: it is not where systems
    clean.
    """
    folder = run_folder()
    if folder is None:
        yield
        return
    with Path(folder, LOCK).open("w") as lock:
        with suppress(OSError):  # a file system without locks, on which nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_stale(Path(folder))
        yield


def remove_stale(folder: Path) -> None:
    """Removes the folders beside *folder* whose processes have ended: nobody holds their locks."""
    for other in folder.parent.glob("replication-run-*"):
        if other == folder:
            continue
        with suppress(OSError), (other / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other, ignore_errors=True)
