"""What the epochs of partition leaders say of logs that were cut and have grown again. Pure.

An unclean leader election cuts the end off a log, and other records take the offsets. Offsets alone
do not show it once the log is as long as before. Each leader has an epoch of its own, and no leader
ever cuts its log. So a log that had a record under one leader still has it under the same one; of a
later leader, brokers say up to which offset its log is that of the earlier one.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from replication.model import Position


class Epochs(NamedTuple):
    """The epochs of the leaders of a partition and its copy; None where nobody knows it."""

    source: int | None = None
    target: int | None = None

    @property
    def columns(self) -> Mapping[str, int | None]:
        """These epochs as columns of the offset map."""
        return {"source_epoch": self.source, "target_epoch": self.target}


class Stamp(NamedTuple):
    """The leader of an *epoch* had all that was copied before the offset *until*."""

    until: int
    epoch: int


class Stamps(NamedTuple):
    """What is known of a partition and of its copy."""

    source: Stamp | None = None
    target: Stamp | None = None

    def renewed(self, at: Position, epochs: Epochs) -> "Stamps":
        """Returns these stamps; where *epochs* are known, their leaders had all up to *at*."""
        ours, theirs = epochs
        return Stamps(
            self.source if ours is None else Stamp(at.upstream, ours),
            self.target if theirs is None else Stamp(at.downstream, theirs),
        )


UNKNOWN = Epochs()
UNSTAMPED = Stamps()

Cut = int | Literal["no", "unknown"]
"""The offset at which a log was cut, as its broker says; or that it was not, or that nobody knows.
Where nobody knows, records have to be compared."""


def is_in_doubt(stamp: Stamp | None, now: int | None) -> bool:
    """Returns whether brokers have to be asked up to where a log is that of the stamped leader.

    *now* is the epoch of today's leader; None if nobody knows it.
    """
    return stamp is not None and now is not None and now != stamp.epoch


def cut_of(at: int, stamp: Stamp | None, now: int | None, same_until: int | None) -> Cut:
    """Decides whether a log was cut before *at*.

    Args:
        at: The offset up to which it was copied by now, which may be beyond the *stamp*.
        stamp: None if nobody knows any leader.
        now: The epoch of today's leader; None if nobody knows it.
        same_until: Up to where today's log is that of the stamped leader, ``stamp.until`` at most.
            None without an answer.
    """
    if stamp is None or now is None:
        return "unknown"
    if now == stamp.epoch:
        return "no"
    if same_until is not None and same_until < stamp.until:
        return same_until
    return "no" if same_until is not None and stamp.until >= at else "unknown"


def unchanged(before: Epochs, now: Epochs) -> Epochs:
    """Returns what is known of records that were copied between two looks at leaders' epochs.

    A record is in the log of a leader that was the same before and afterwards. Where the leader has
    changed, nobody knows which one had it.
    """
    return Epochs(*(new if new == old else None for old, new in zip(before, now, strict=True)))
