"""Finished batches become pending runs; a batch that does not continue them changes nothing."""

import pytest

from replication.model import Position, TopicPartition
from replication.offsets.pending import LeftOut, PendingRuns, Report
from replication.offsets.runs import OffsetRun, ProgressGapError

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def pending_runs() -> PendingRuns:
    return PendingRuns({TP: Position(100, 0), OTHER: Position(7, 70)})


def test_adjacent_dense_batches_become_one_run() -> None:
    pending = pending_runs()
    for batch in range(5):
        start = 100 + 10 * batch
        pending.add_batch(batch, {TP: start, OTHER: 7}, {TP: start + 10, OTHER: 7}, {TP: 10})

    assert pending.take() == {TP: [OffsetRun(100, 150, 0, 50)]}
    assert pending.take() == {}
    assert pending.positions() == {TP: Position(150, 50), OTHER: Position(7, 70)}


def test_sparse_batches_stay_apart() -> None:
    pending = pending_runs()
    pending.add_batch(0, {TP: 100}, {TP: 110}, {TP: 9})
    pending.add_batch(1, {TP: 110}, {TP: 120}, {TP: 9})

    assert pending.take() == {TP: [OffsetRun(100, 110, 0, 9), OffsetRun(110, 120, 9, 9)]}


@pytest.mark.parametrize(
    ("start", "end", "counts", "problem"),
    [
        pytest.param({TP: 101}, {TP: 110}, {}, "starts at offset 101, expected 100", id="gap"),
        pytest.param({TP: 90}, {TP: 110}, {}, "starts at offset 90, expected 100", id="again"),
        pytest.param(
            {TP: 100},
            {TP: 110},
            {TP: 11},
            r"wrote 11 records from the range \[100, 110\)",
            id="many",
        ),
        pytest.param(
            {TP: 100}, {TP: 99}, {}, r"wrote 0 records from the range \[100, 99\)", id="backwards"
        ),
        pytest.param(
            {}, {}, {TP: 1}, "wrote 1 records, but its offset range is None to None", id="no range"
        ),
        pytest.param(
            {TP: 100}, {}, {}, "wrote 0 records, but its offset range is 100 to None", id="no end"
        ),
        pytest.param(
            {("t", 5): 0},
            {("t", 5): 1},
            {},
            "the generation does not read this partition",
            id="unknown partition",
        ),
    ],
)
def test_a_batch_that_does_not_continue_the_map_is_rejected_whole(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    counts: dict[TopicPartition, int],
    problem: str,
) -> None:
    pending = pending_runs()

    with pytest.raises(ProgressGapError, match=f"batch 3, .*{problem}"):
        pending.add_batch(3, {OTHER: 7, **start}, {OTHER: 8, **end}, counts)

    assert pending.take() == {}
    assert pending.positions() == pending_runs().positions()


def test_a_partition_that_a_batch_leaves_out_stands_there_and_the_next_one_goes_back() -> None:
    pending = pending_runs()
    pending.leave_out(TP, LeftOut(4, 104))
    pending.add_batch(4, {TP: 100, OTHER: 7}, {TP: 110, OTHER: 9}, {TP: 4, OTHER: 2})
    assert pending.positions() == {TP: Position(104, 4), OTHER: Position(9, 72)}

    pending.add_batch(5, {TP: 110, OTHER: 9}, {TP: 104, OTHER: 9}, {})
    pending.leave_out(TP, LeftOut(6, 104))  # before anybody has told the executor
    pending.add_batch(6, {TP: 104, OTHER: 9}, {TP: 110, OTHER: 10}, {OTHER: 1})
    pending.add_batch(7, {TP: 110, OTHER: 10}, {TP: 104, OTHER: 10}, {})
    pending.add_batch(8, {TP: 104, OTHER: 10}, {TP: 110, OTHER: 10}, {TP: 6})

    assert pending.take() == {TP: [OffsetRun(100, 110, 0, 10)], OTHER: [OffsetRun(7, 10, 70, 3)]}
    assert pending.positions() == {TP: Position(110, 10), OTHER: Position(10, 73)}


def test_partitions_that_a_batch_does_not_move_are_not_taken_and_are_not_unconfirmed() -> None:
    pending = PendingRuns({TP: Position(100, 0), OTHER: Position(7, 70)}, spacing=0)
    pending.add_batch(0, {TP: 100, OTHER: 7}, {TP: 110, OTHER: 7}, {TP: 10})
    assert pending.unconfirmed() == {TP: Position(110, 10)}

    pending.accept_batches([TP])
    pending.add_batch(1, {TP: 110, OTHER: 7}, {TP: 110, OTHER: 7}, {})

    assert pending.unconfirmed() == {}
    assert pending.take_new() == pending.take() == {TP: [OffsetRun(100, 110, 0, 10)]}
    assert pending.take_new() == pending.take() == {}


def test_a_batch_that_repeats_a_place_without_moving_must_be_at_the_right_one() -> None:
    with pytest.raises(ProgressGapError, match="starts at offset 8, expected 7"):
        pending_runs().add_batch(0, {OTHER: 8}, {OTHER: 8}, {})


def test_what_was_reported_before_a_contradiction_is_taken() -> None:
    pending = PendingRuns({TP: Position(100, 0)}, spacing=0)
    contradicts = OffsetRun(115, 116, 30, 1)
    with pytest.raises(ProgressGapError):
        pending.add_acknowledged(TP, Report([OffsetRun(100, 110, 0, 10), contradicts]))

    assert pending.take_new() == pending.take() == {TP: [OffsetRun(100, 110, 0, 10)]}
