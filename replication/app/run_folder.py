"""The folder of this process's files: held while it runs, and those of dead processes removed."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from replication.config.home import RUN_FOLDER

LOCK: Final = "lock"


@contextmanager
def hold_run_folder() -> Iterator[None]:
    """Holds the folder's lock for the block, and removes what killed processes have left.

    The script removes the folder of a job that ends. Nothing else would: it is not where systems
    clean.
    """
    folder = os.environ.get(RUN_FOLDER)
    if not folder:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):  # a full disk, or no locks there: then nothing is removed
            lock = stack.enter_context(Path(folder, LOCK).open("w"))
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
