"""What one start of a flow has replicated so far, for the table ``executions``.

Everything here is known to the flow anyway, but for one request to the source at the start.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from replication.errors import ReplicationError
from replication.figures.lag import utc
from replication.flows.flow_metrics import Copying, FlowMetrics, TopicOrPartition, topic_of
from replication.model import Isolation, TopicPartition
from replication.state.executions import TopicEnd

SourceEnds = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Killed:
    """A process that held a lease of the flow and never gave it back.

    Args:
        host: Its machine and process.
        epoch: Of the lease of the records; None if it is another one.
        since: When it began to claim the lease.
        seen: Its last sign of life in the tables.
    """

    host: str
    epoch: int | None
    since: datetime
    seen: datetime


@dataclass(slots=True)
class RunSummary:
    """The figures of one start of a flow. Only the flow's own threads add to them.

    Attributes:
        metrics: The figures of the flow while it runs; what is summed up comes from there.
        epoch: Of the lease of the flow's records, once this process has held it.
        claims: The ids of the claims by which this process has held leases.
        when_killed: Is told of an owner before this process that has not given its lease back.
        positions: The next source offset of each partition, as far as it is known.
        set_aside: What is set aside now, and why.
        shown: The topics that the source showed last, without those; None if it has shown none.
    """

    metrics: FlowMetrics = field(default_factory=FlowMetrics)
    epoch: int | None = None
    claims: set[str] = field(default_factory=set)
    when_killed: Callable[[Killed], None] = lambda _killed: None
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    set_aside: Mapping[TopicOrPartition, ReplicationError] = field(default_factory=dict)
    shown: Collection[str] | None = None
    _ends: dict[TopicPartition, int] = field(default_factory=dict)
    _stable: dict[TopicPartition, int] = field(default_factory=dict)
    _readable: dict[TopicPartition, int] = field(default_factory=dict)

    def without_end(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Returns those of *partitions* whose ends at the start are still to be noted."""
        return set(partitions) - self._readable.keys()

    def begin(self, ends: SourceEnds, stable: SourceEnds, isolation: Isolation) -> None:
        """Notes where partitions of the source ended when the flow began with them.

        Args:
            ends: Their log ends.
            stable: Their last stable offsets; a partition may be absent.
            isolation: Of the flow.
        """
        self._ends.update(ends)
        self._stable.update(stable)
        self._readable.update(stable if isolation == "read_committed" else ends)

    def end(
        self,
        positions: Mapping[TopicPartition, int],
        set_aside: Mapping[TopicOrPartition, ReplicationError],
        shown: Collection[str] | None,
    ) -> None:
        """Takes how far the flow has come; the values are those of the attributes."""
        self.positions = positions
        self.set_aside = set_aside
        self.shown = shown

    def topics(self) -> tuple[TopicEnd, ...]:
        """Returns what is to be recorded of each topic, sorted by name."""
        copying = self.metrics.look().copying
        partitions: dict[str, set[TopicPartition]] = {topic: set() for topic in copying.records}
        causes: dict[str, list[str]] = {}
        for tp in self._readable:
            partitions.setdefault(tp.topic, set()).add(tp)
        for part, error in sorted(self.set_aside.items(), key=str):
            causes.setdefault(topic_of(part), []).append(str(error))
        names = partitions.keys() | causes.keys()
        return tuple(
            self._topic(copying, name, partitions.get(name, set()), causes.get(name, []))
            for name in sorted(names)
        )

    def _topic(
        self, copying: Copying, name: str, partitions: set[TopicPartition], causes: list[str]
    ) -> TopicEnd:
        records, newest_ms = copying.records.get(name, 0), copying.newest_ms.get(name, -1)
        reached, readable = _sum(self.positions, partitions), self._readable
        behind = (max(0, readable[tp] - self.positions.get(tp, 0)) for tp in partitions)
        # of a deleted topic, the last records may never be confirmed, and none is left to copy
        is_gone = self.shown is not None and not causes and name not in self.shown
        return TopicEnd(
            name,
            records,
            bytes=copying.bytes.get(name, None if records else 0),
            set_aside=len(causes),
            cause="\n".join(causes) or None,
            source_end=_sum(self._ends, partitions),
            source_stable=_sum(self._stable, partitions),
            reached=reached,
            behind=None if reached is None or is_gone else sum(behind),
            newest_record=utc(newest_ms / 1000) if newest_ms >= 0 else None,
        )


def _sum(offsets: Mapping[TopicPartition, int], partitions: set[TopicPartition]) -> int | None:
    if not partitions or not partitions <= offsets.keys():
        return None
    return sum(offsets[tp] for tp in partitions)
