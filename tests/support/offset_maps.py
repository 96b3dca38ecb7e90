"""Holds an offset map against the offsets of records that a comparison has found equal."""

from collections.abc import Callable

from replication.demo.compare import TopicReport, fits
from replication.model import TopicPartition
from replication.offsets.map import Exact, OffsetMap

MapOf = Callable[[TopicPartition], OffsetMap]
"""The offset map of an upstream partition."""


def wrong_entries(report: TopicReport, map_of: MapOf) -> list[str]:
    """What the map says wrongly of the records that are equal on both sides.

    Where both logs have no gap, the answer must be each record's own offset. Elsewhere it must skip
    no record and repeat no more than it states.

    Args:
        report: A comparison with ``keep_offsets``.
        map_of: Called once for each partition.
    """
    wrong = []
    for part in report.partitions:
        is_dense = part.sections <= 1
        offsets = map_of(TopicPartition(report.topic, part.partition))
        for upstream, downstream in part.offsets:
            answer = offsets.translate(upstream)
            if not (answer == Exact(downstream) if is_dense else fits(answer, downstream)):
                at = f"{report.topic}-{part.partition}: offset {upstream} is at {downstream}"
                wrong.append(f"{at}, not {answer}")
    return wrong
