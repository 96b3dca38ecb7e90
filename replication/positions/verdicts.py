"""What comparing records finds of those that the target has after the offset map. Pure."""

from dataclasses import dataclass

from replication.model import NewEvent
from replication.offsets.guard import Refusal
from replication.offsets.runs import OffsetRun


@dataclass(frozen=True, slots=True)
class Counted:
    """The target's records after the offset map are the source's next ones: *run*.

    ``parts`` are the same run in pieces, where it has gaps; none for one piece.
    """

    run: OffsetRun
    parts: tuple[OffsetRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Realigned:
    """The target's records after the offset map are the source's next ones in part.

    Args:
        runs: What matches, and an anchor where the partition resumes, at least once.
        event: For the reason.
        foreign: The refusal for the records that match nothing; None if there are none.
    """

    runs: list[OffsetRun]
    event: NewEvent
    foreign: Refusal | None
