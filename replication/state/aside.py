"""A damaged table without positions is moved aside, so that its flow goes on with a new one."""

import time
from pathlib import Path
from typing import Final

EXPENDABLE: Final = frozenset({"events", "executions", "leases"})
"""Without their old rows no record is lost, repeated or translated wrongly."""

_MARK: Final = ".damaged-"


def set_aside(folder: Path) -> Path:
    """Renames the table in *folder*; returns its new place.

    Raises:
        OSError: It cannot be renamed.
    """
    return folder.rename(f"{folder}{_MARK}{time.time_ns()}")


def is_set_aside(folder: Path) -> bool:
    """Whether an earlier table of *folder* was set aside, and is still there."""
    return any(folder.parent.glob(f"{folder.name}{_MARK}*"))
