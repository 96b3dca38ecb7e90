"""What existed on the source when a flow first started: ``auto.offset.reset=latest`` is for that.

A partition that is born later begins at its earliest offset, or its first records would be lost
between two looks at the topics. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from replication.model import TopicPartition


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The source as a flow that starts at ``latest`` has first seen it.

    Args:
        names: All topics that there were.
        ends: The log ends of the partitions that the flow had selected.
        ids: The ids of their topics.
    """

    names: frozenset[str] = frozenset()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    def latest(self, tp: TopicPartition, topic_id: str, end: int) -> int | None:
        """Returns where *tp*, without a position, begins; None at the earliest offset.

        Args:
            tp: The partition.
            topic_id: Of its topic.
            end: Its log end. A topic that was not selected at first begins there.
        """
        if tp.topic not in self.ids:
            return end if tp.topic in self.names else None
        is_same = self.ids[tp.topic] == topic_id
        return min(end, self.ends[tp]) if is_same and tp in self.ends else None


def starts_at_latest(
    first: FirstStart | None,
    partitions: Collection[TopicPartition],
    topic_ids: Mapping[str, str],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Returns the start offsets of those *partitions* that do not begin at their earliest one.

    Args:
        first: What existed at the flow's first start; None if that is now.
        partitions: Partitions without a position.
        topic_ids: Of their topics.
        earliest: The source's first offsets.
        ends: Its log ends. Of a partition that does not exist any more one of both is missing.
    """
    starts = {}
    for tp in partitions:
        if tp in earliest and tp in ends:
            end = ends[tp]
            at = end if first is None else first.latest(tp, topic_ids[tp.topic], end)
            if at is not None:
                starts[tp] = max(earliest[tp], at)
    return starts
