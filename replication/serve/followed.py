"""What files hold now, for a server that nobody wants to start again when one is replaced."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from replication.errors import SetupError

_Value = TypeVar("_Value")

Look = tuple[tuple[int, int, int], ...]
"""What tells that a file was written or replaced: its inode, its time and its size, by file."""


class Followed(Generic[_Value]):
    """What *load* makes of files, anew when one of them has changed.

    Files that cannot be loaded, for example because one of two is written yet, leave the value as
    it was, which is said once.

    Args:
        files: Which.
        load: Makes the value.
        loaded: Is told the files, when their new content counts.
        kept: Is told why it does not.

    Raises:
        SetupError: They cannot be loaded.
    """

    def __init__(
        self,
        files: Sequence[str],
        load: Callable[[], _Value],
        *,
        loaded: Callable[[str], None],
        kept: Callable[[str], None],
    ) -> None:
        self._files = files
        self._load = load
        self._loaded = loaded
        self._kept = kept
        self._seen = _look(files)
        self._newest = load()
        self._is_said = False

    def now(self) -> _Value:
        """Returns the value of the files as they are."""
        seen = _look(self._files)
        if seen == self._seen:
            return self._newest
        self._seen = seen  # before they are read: what is written meanwhile is read again
        try:
            self._newest = self._load()
        except SetupError as error:
            if not self._is_said:
                self._kept(str(error))
            self._is_said = True
            return self._newest
        self._is_said = False
        self._loaded(", ".join(self._files))
        return self._newest


def _look(files: Sequence[str]) -> Look:
    return tuple(_mark(file) for file in files)


def _mark(file: str) -> tuple[int, int, int]:
    try:
        stat = Path(file).stat()
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
