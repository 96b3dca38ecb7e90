"""Runs of a partition whose remote partition others write: the reports alone give the offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.map import Exact, NoAnswer, OffsetMap
from replication.offsets.pending import PendingRuns, Report
from replication.offsets.runs import OffsetRun, ProgressGapError

TP = TopicPartition("orders", 0)


def pending_runs() -> PendingRuns:
    return PendingRuns({TP: Position(100, 40)}, spacing=0, shared={TP})


def report(pending: PendingRuns, *runs: tuple[int, int, int, int]) -> None:
    pending.add_acknowledged(TP, Report([OffsetRun(*run) for run in runs]))


def test_records_of_others_lie_between_the_runs() -> None:
    pending = pending_runs()
    report(pending, (100, 103, 45, 3), (103, 105, 50, 2))
    pending.add_batch(0, {TP: 100}, {TP: 105}, {TP: 5})

    assert not pending.unconfirmed()
    assert pending.positions() == {TP: Position(105, 52)}
    assert pending.take() == {TP: [OffsetRun(100, 103, 45, 3), OffsetRun(103, 105, 50, 2)]}


def test_a_gap_of_the_source_is_one_without_records() -> None:
    pending = pending_runs()
    report(pending, (100, 101, 40, 1), (107, 108, 60, 1))
    pending.add_batch(0, {TP: 100}, {TP: 110}, {TP: 2})

    offsets = OffsetMap(pending.take()[TP])

    assert [offsets.translate(source) for source in (100, 101, 104, 107, 110)] == [
        Exact(40),
        Exact(41),
        Exact(41),
        Exact(60),
        Exact(61),
    ]
    assert pending.positions() == {TP: Position(110, 61)}


def test_a_batch_waits_for_the_reports_of_its_records() -> None:
    pending = pending_runs()
    pending.add_batch(0, {TP: 100}, {TP: 105}, {TP: 5})
    report(pending, (100, 104, 70, 4))

    assert pending.unconfirmed() == {TP: Position(105, 45)}
    with pytest.raises(ProgressGapError, match="those after 104 are copied again"):
        pending.accept_batches([TP])
    report(pending, (104, 106, 80, 2))
    assert not pending.unconfirmed()


def test_a_report_that_goes_back_is_an_error() -> None:
    pending = pending_runs()
    report(pending, (100, 104, 70, 4))

    with pytest.raises(ProgressGapError, match="the last known position"):
        report(pending, (103, 105, 80, 2))
    with pytest.raises(ProgressGapError, match="the last known position"):
        report(pending, (104, 105, 73, 1))


ONE_RECORD = st.tuples(st.integers(0, 3), st.integers(0, 4))
"""Source offsets without a record before this one, and others' records before its copy."""


@given(st.lists(ONE_RECORD, min_size=1), st.integers(1, 5))
def test_no_group_skips_a_record_in_either_direction(
    records: list[tuple[int, int]], at_once: int
) -> None:
    pending = pending_runs()
    source, target, copies = 100, 40, dict[int, int]()
    for missing, others in records:
        source, target = source + missing, target + others
        copies[source] = target
        source, target = source + 1, target + 1
    pairs = list(copies.items())
    for start in range(0, len(pairs), at_once):
        chunk = pairs[start : start + at_once]
        report(pending, *((s, s + 1, t, 1) for s, t in chunk))
    pending.add_batch(0, {TP: 100}, {TP: source}, {TP: len(pairs)})
    offsets = OffsetMap(pending.take()[TP])

    assert not pending.unconfirmed()
    for committed in range(100, source + 1):
        answer = offsets.translate(committed)
        unread = [t for s, t in pairs if s >= committed]
        assert not isinstance(answer, NoAnswer)
        assert answer.offset <= min(unread, default=target)
    for committed in range(pairs[0][1], target + 1):
        answer = offsets.translate_back(committed)
        unread = [s for s, t in pairs if t >= committed]
        assert not isinstance(answer, NoAnswer)
        assert answer.offset <= min(unread, default=source)
