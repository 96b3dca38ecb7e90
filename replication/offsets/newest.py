"""Where the newest records of a topic are. Pure."""

from collections.abc import Mapping

from replication.model import TopicPartition

Window = tuple[int, int]
"""An offset, and the one behind the last."""


def newest_windows(
    spans: Mapping[TopicPartition, Window], records: int
) -> dict[TopicPartition, Window]:
    """Returns windows at the ends of a topic's partitions, with *records* offsets together.

    Each partition gives as many as the others, and more where others have fewer. Partitions with
    nothing in their window are left out.

    Args:
        spans: Where the log of each partition begins and ends.
        records: How many offsets are wanted.
    """
    found: dict[TopicPartition, Window] = {}
    left = records
    shortest_first = sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[0]))
    for place, (tp, (start, until)) in enumerate(shortest_first):
        share = -(-left // (len(spans) - place))
        taken = min(share, until - start)
        left -= taken
        if taken > 0:
            found[tp] = until - taken, until
    return dict(sorted(found.items()))
