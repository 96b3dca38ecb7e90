"""Runs of the offset map: what merges, what stays apart, what contradicts."""

import pytest
from hypothesis import given

from replication.model import Position
from replication.offsets.runs import OffsetRun, anchor, merge_runs
from tests.support.copied_partition import CopiedPartition, copied_partitions

DENSE, SPARSE = OffsetRun(100, 200, 0, 100), OffsetRun(200, 240, 100, 30)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param(
            [OffsetRun(10, 20, 15, 10), OffsetRun(0, 10, 5, 10)],
            [OffsetRun(0, 20, 5, 20)],
            id="dense neighbours, in any order",
        ),
        pytest.param([SPARSE, SPARSE], [SPARSE], id="the same run twice"),
        pytest.param(
            [OffsetRun(0, 10, 0, 10), OffsetRun(0, 25, 0, 25)],
            [OffsetRun(0, 25, 0, 25)],
            id="dense runs that overlap and agree",
        ),
        pytest.param(
            [OffsetRun(0, 10, 5, 10), OffsetRun(11, 20, 16, 9)],
            [OffsetRun(0, 10, 5, 10), OffsetRun(11, 20, 16, 9)],
            id="a hole of one offset on both sides",
        ),
        pytest.param(
            [OffsetRun(0, 5, 0, 0), OffsetRun(5, 9, 0, 0)], [OffsetRun(0, 9, 0, 0)], id="no records"
        ),
        pytest.param(
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 5)],
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 5)],
            id="sparse neighbours stay apart",
        ),
        pytest.param(
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 0)],
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 0)],
            id="sparse and without records: the border is exact",
        ),
        pytest.param(
            [OffsetRun(0, 1, 0, 0), anchor(Position(0, 0)), OffsetRun(0, 1, 0, 0)],
            [OffsetRun(0, 1, 0, 0)],
            id="a joined run joins its neighbour",
        ),
        pytest.param([DENSE, anchor(DENSE.end)], [DENSE], id="anchor at the end"),
        pytest.param([anchor(Position(100, 0)), DENSE], [DENSE], id="anchor at the start"),
        pytest.param(
            [DENSE, anchor(Position(300, 100))],
            [DENSE, anchor(Position(300, 100))],
            id="an anchor that adds information",
        ),
        pytest.param(
            [OffsetRun(0, 2, 0, 0), anchor(Position(1, 0)), OffsetRun(1, 2, 0, 0)],
            [OffsetRun(0, 2, 0, 0)],
            id="what a run without records says already",
        ),
        pytest.param(
            [DENSE, OffsetRun(300, 310, 100, 10)],
            [DENSE, OffsetRun(300, 310, 100, 10)],
            id="a skip between",
        ),
        pytest.param(
            [OffsetRun(0, 10, 0, 8), OffsetRun(0, 9, 0, 8)],
            [OffsetRun(0, 10, 0, 8), OffsetRun(0, 9, 0, 8)],
            id="two true runs of one batch",
        ),
    ],
)
def test_runs_merge_only_where_no_position_is_lost(
    runs: list[OffsetRun], expected: list[OffsetRun]
) -> None:
    assert merge_runs(runs) == expected


@given(copied_partitions())
def test_merging_again_changes_nothing(copied: CopiedPartition) -> None:
    merged = merge_runs(copied.runs)

    assert merge_runs(merged) == merged
    assert merged[-1].end == copied.position


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(OffsetRun(0, 100, 50, 100), id="dense, another shift"),
        pytest.param(OffsetRun(110, 210, 50, 100), id="dense, shift off by forty"),
        pytest.param(OffsetRun(900, 999, 50, 60), id="other source range"),
    ],
)
def test_runs_that_contradict_each_other_are_rejected(after: OffsetRun) -> None:
    with pytest.raises(ValueError, match="claim the same target offsets"):
        merge_runs([DENSE, after])


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        pytest.param((0, 10, 0, 11), "count must be between", id="more records than offsets"),
        pytest.param((10, 0, 0, 0), "count must be between", id="backwards"),
        pytest.param((0, 10, 0, -1), "count must be between", id="negative count"),
        pytest.param((-1, 10, 0, 1), "offsets must be 0 or more", id="negative source"),
        pytest.param((0, 10, -1, 1), "offsets must be 0 or more", id="negative target"),
    ],
)
def test_an_impossible_run_is_rejected(numbers: tuple[int, int, int, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        OffsetRun(*numbers)


@pytest.mark.parametrize(
    ("run", "position", "rest"),
    [
        pytest.param(
            OffsetRun(0, 10, 0, 10), Position(3, 3), OffsetRun(3, 10, 3, 7), id="dense: cut"
        ),
        pytest.param(
            OffsetRun(0, 10, 0, 5),
            Position(3, 3),
            OffsetRun(0, 10, 0, 5),
            id="sparse: which records came before is not known",
        ),
        pytest.param(
            OffsetRun(0, 10, 0, 5), Position(10, 5), anchor(Position(10, 5)), id="all of it is late"
        ),
        pytest.param(
            OffsetRun(3, 10, 3, 7), Position(3, 3), OffsetRun(3, 10, 3, 7), id="nothing is late"
        ),
    ],
)
def test_of_a_late_report_only_the_part_that_is_certainly_new_counts(
    run: OffsetRun, position: Position, rest: OffsetRun
) -> None:
    assert run.after(position) == rest


def test_an_operator_reads_a_run_as_a_sentence() -> None:
    run, anchor = OffsetRun(100, 150, 7, 40), OffsetRun(5, 5, 9, 0)

    assert str(run) == "source offsets 100 to 149 with 40 records from target offset 7 on"
    assert str(anchor) == "source offset 5 at target offset 9"
