"""Which partitions may be moved while somebody may be copying them."""

import pytest

from replication.config.changes import Change, fold
from replication.control.moves import Running
from replication.errors import LeaseError
from replication.model import Flow, TopicPartition

FLOW = Flow("A", "B")
ONE, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
PAUSE = Change(FLOW, "pause", ("clicks:0",), by="ann@desk", number=1, id="a" * 32)


def running(by: str = "etl-7", *, is_in_force: bool = True) -> Running:
    return Running(FLOW, by, fold([PAUSE]), is_in_force)


def test_what_nobody_copies_may_be_moved() -> None:
    running("").refuse([ONE, OTHER])
    running("", is_in_force=False).refuse([ONE])


def test_a_paused_partition_may_be_moved_and_no_other() -> None:
    running().refuse([ONE])
    with pytest.raises(LeaseError, match=r"etl-7\. clicks-1 is being copied.*--partition 1, or"):
        running().refuse([ONE, OTHER])


def test_a_pause_that_is_not_in_force_yet_is_none() -> None:
    with pytest.raises(LeaseError, match="not in force there yet"):
        running(is_in_force=False).refuse([ONE])
