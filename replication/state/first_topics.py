"""The table ``first_topics``: what a flow found on the source when it first started."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from replication.model import Flow, TopicPartition
from replication.offsets.first_start import FirstStart
from replication.state.offset_rows import TableRow

FIRST_TOPICS: Final = "first_topics"
NO_TOPIC: Final = ""
"""The topic of a row that only says that the flow has started."""


def first_start_of(rows: Iterable[TableRow], *, has_started: bool) -> FirstStart | None:
    """Returns what the *rows* of a flow say; None if it has not started yet.

    Args:
        rows: Of the flow. It has none if it first started with another ``auto.offset.reset``.
        has_started: Whether the offset map has rows of it.
    """
    known = list(rows)
    if not known:
        return FirstStart() if has_started else None
    selected = [row for row in known if row.get("partition") is not None]
    return FirstStart(
        frozenset(row["topic"] for row in known),
        {
            TopicPartition(row["topic"], row["partition"]): row["end_offset"]
            for row in selected
            if row["end_offset"] is not None
        },
        {row["topic"]: row["topic_id"] for row in selected},
    )


def rows_of(
    flow: Flow,
    names: Collection[str],
    topic_ids: Mapping[str, str],
    ends: Mapping[TopicPartition, int | None],
) -> list[dict[str, Any]]:
    """Returns the rows of a flow's first start.

    Args:
        flow: The flow.
        names: All topics of the source.
        topic_ids: Of the topics that the flow selects.
        ends: The log ends of their partitions; None where no broker leads one.
    """
    common = {"flow": str(flow), "at": datetime.now(timezone.utc)}
    others = {NO_TOPIC, *names} - topic_ids.keys()
    return [{**common, "topic": name} for name in sorted(others)] + [
        {
            **common,
            "topic": tp.topic,
            "topic_id": topic_ids[tp.topic],
            "partition": tp.partition,
            "end_offset": end,
        }
        for tp, end in sorted(ends.items())
    ]
