"""A brute-force model of one replicated partition, to hold the offset map and the syncs against.

It replicates a random log in random batches and then looks at every single record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.map import NoAnswer, Translation
from replication.offsets.runs import OffsetRun, anchor, next_run

ORDERS_0 = TopicPartition("orders", 0)
OTHER_PRODUCER = -1
"""Marks a record that another producer wrote to the target, in place of a source offset."""


@dataclass
class CopiedPartition:
    """A source partition, its copy, and the offset map of the replication between them.

    ``target[i]`` is the source offset of the record at target offset ``first + i``.
    """

    records: frozenset[int]
    source_end: int
    first: int
    start: int
    target: list[int] = field(default_factory=list)
    runs: list[OffsetRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.position = Position(self.start, self.first)
        self.runs.append(anchor(self.position))

    def replicate(self, width: int) -> None:
        """Replicates one batch of up to *width* source offsets and records its run."""
        start = self.position.upstream
        until = min(self.source_end, start + width)
        batch = [offset for offset in range(start, until) if offset in self.records]
        self.target += batch
        run = next_run(self.position, src_from=start, src_until=until, count=len(batch))
        self.runs.append(run)
        self.position = run.end

    def replicate_unrecorded(self, width: int) -> None:
        """Replicates a batch that never reaches the map, which then continues with an anchor."""
        self.replicate(width)
        self.runs[-1] = anchor(self.position)

    def set_to(self, upstream: int) -> None:
        """Skips source offsets (forward) or rewinds (back): a new anchor."""
        self.position = Position(min(upstream, self.source_end), self.position.downstream)
        self.runs.append(anchor(self.position))

    def write_as_other_producer(self, count: int) -> None:
        """Another producer writes to the target; the map gets an anchor behind its records."""
        self.target += [OTHER_PRODUCER] * count
        self.position = Position(self.position.upstream, self.position.downstream + count)
        self.runs.append(anchor(self.position))

    def true_position(self, committed: int) -> int:
        """The highest target offset that skips no record from *committed* on."""
        newest = {s: self.first + i for i, s in enumerate(self.target) if s != OTHER_PRODUCER}
        return min((t for s, t in newest.items() if s >= committed), default=self.end)

    def true_position_back(self, committed: int) -> int:
        """The highest source offset that skips no record unread on the target or yet to come."""
        read = {s for i, s in enumerate(self.target) if self.first + i < committed}
        behind = set(self.target[committed - self.first :])
        to_come = range(self.position.upstream, self.source_end)
        unread = (behind | set(to_come) & self.records) - read - {OTHER_PRODUCER}
        return min(unread, default=self.source_end)

    @property
    def end(self) -> int:
        """The target's log end offset."""
        return self.first + len(self.target)

    def reread(self, committed: int, offset: int) -> int:
        """Records the group has read and gets again, those yet to be replicated included."""
        to_come = [s for s in range(self.position.upstream, self.source_end) if s in self.records]
        again = self.target[offset - self.first :] + to_come
        return sum(1 for s in again if s != OTHER_PRODUCER and s < committed)

    def reread_back(self, committed: int, offset: int) -> int:
        """Records the group has read on the target and gets again on the source."""
        return sum(1 for s in self.target[: committed - self.first] if s >= offset)


@st.composite
def copied_partitions(
    draw: st.DrawFn, *, one_way: bool = False, unrecorded: bool = False
) -> CopiedPartition:
    """Random logs in random batches.

    Args:
        draw: Hypothesis.
        one_way: Excludes rewinds, skips and other producers.
        unrecorded: Includes batches that never reach the map.
    """
    end = draw(st.integers(1, 30))
    density = draw(st.sampled_from([1, 2, 8, 100]))  # 100: every offset holds a record, almost
    records = frozenset(s for s in range(end) if draw(st.integers(1, density)) > 1 or density > 50)
    start = draw(st.integers(0, min(5, end)))
    copied = CopiedPartition(records, end, draw(st.integers(0, 3)), start)
    kinds = ["batch"] if one_way else ["batch", "batch", "batch", "set", "other producer"]
    kinds += ["unrecorded"] * unrecorded
    for _ in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(kinds)):
            case "batch":
                copied.replicate(draw(st.integers(0, 12)))
            case "unrecorded":
                copied.replicate_unrecorded(draw(st.integers(0, 12)))
            case "set":
                copied.set_to(draw(st.integers(start, end)))
            case _:
                copied.write_as_other_producer(draw(st.integers(1, 3)))
    return copied


def mm2_translate(syncs: Sequence[tuple[int, int]], committed: int) -> int | None:
    """MM2's rule with an unbounded store: a sync that steps back makes it forget all others."""
    known: list[tuple[int, int]] = []
    for sync in syncs:
        known = [sync] if known and sync[0] < known[-1][0] else [*known, sync]
    for upstream, downstream in reversed(known):
        if upstream <= committed:
            return downstream if upstream == committed else downstream + 1
    return None


def offset_of(answer: Translation) -> int:
    """The offset of an answer that must be one."""
    assert not isinstance(answer, NoAnswer)
    return answer.offset


def bound_of(answer: Translation) -> int:
    """At most so many records an answer, which must be one, lets a group read again."""
    assert not isinstance(answer, NoAnswer)
    return answer.reread
