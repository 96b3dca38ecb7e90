"""What a move means for groups and for counting, before it is done."""

from collections.abc import Sequence

import pytest

from replication.control.moves import MovedMap, changed_groups, copies_all, is_dense
from replication.model import Committed, Position, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.map import Ahead, Exact
from replication.offsets.moved import MovedPosition, OwnPosition
from replication.offsets.runs import OffsetRun

TP = TopicPartition("t", 0)
DENSE = (OffsetRun(0, 100, 0, 100),)


def moved_map(to: int, records: int | None) -> MovedMap:
    """A dense partition, copied up to offset 100, that is to go on at *to*."""
    own = OwnPosition(Position(100, 100))
    return MovedMap(DENSE, MovedPosition(Position(to, 100), own), records)


def committed(**groups: int) -> dict[str, dict[TopicPartition, Committed]]:
    return {name: {TP: Committed(offset)} for name, offset in groups.items()}


def test_groups_behind_a_position_that_moves_back_mean_the_newer_copies() -> None:
    found = changed_groups(committed(low=80, high=95, end=100), {TP: moved_map(90, 10)})

    assert [(each.group, each.before, each.after) for each in found] == [
        ("end", Exact(100), Exact(110)),
        ("high", Exact(95), Exact(105)),
    ]


def test_a_group_that_reads_what_is_left_out_is_not_ahead_any_more() -> None:
    found = changed_groups(committed(low=80, inside=110, end=100), {TP: moved_map(120, 20)})

    assert [(each.group, each.before, each.after) for each in found] == [
        ("inside", Ahead(100, 10), Exact(100)),
    ]


def test_partitions_that_do_not_move_change_nothing() -> None:
    elsewhere = {"g": {TopicPartition("u", 0): Committed(5)}}

    assert changed_groups(elsewhere, {TP: moved_map(90, 10)}) == ()


@pytest.mark.parametrize(
    ("span", "runs", "dense"),
    [
        ((10, 90), DENSE, True),
        ((0, 100), DENSE, True),
        ((0, 101), DENSE, False),
        ((0, 100), [OffsetRun(50, 100, 40, 50), OffsetRun(0, 50, 0, 50)], True),
        ((0, 100), [OffsetRun(0, 50, 0, 40), OffsetRun(50, 100, 40, 50)], False),
        ((60, 100), [OffsetRun(0, 50, 0, 40), OffsetRun(50, 100, 40, 50)], True),
        ((0, 100), [], False),
        ((5, 5), [], True),
    ],
)
def test_offsets_are_records_where_the_map_is_dense(
    span: tuple[int, int], runs: Sequence[OffsetRun], *, dense: bool
) -> None:
    assert is_dense(span, runs) is dense


def test_a_rule_that_leaves_records_out_is_counted_by() -> None:
    assert copies_all(CopyRule("broker", mark="A"))
    assert not copies_all(CopyRule(not_to="B"))
