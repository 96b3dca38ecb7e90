"""Lets C libraries give the memory that they have freed back to the system.

glibc keeps what each thread frees, up to a limit that grows with the largest block that was ever
freed. After forty minutes of faults a driver's Python had 60 MB of it, left by readers of records.
"""

import ctypes
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD: Final = -1
"""M_TRIM_THRESHOLD of malloc.h. Once it is set, glibc does not raise it."""

KEPT_BYTES: Final = 128 << 10
"""What a thread's heap may keep: glibc's own first limit."""


def give_back_memory() -> None:
    """Fixes how much freed memory a thread's heap keeps; other C libraries have no such call."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
