"""Executors' reports and finished batches become one map, and must agree at every batch's end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.map import Exact, NoAnswer, OffsetMap
from replication.offsets.pending import LeftOut, Overdue, PendingRuns, Report
from replication.offsets.runs import OffsetRun, ProgressGapError, anchor, coarser

TP = TopicPartition("orders", 0)
START = Position(100, 0)


def pending_runs(spacing: int = 0) -> PendingRuns:
    return PendingRuns({TP: START}, spacing=spacing)


def test_a_report_moves_the_position_before_its_batch_ends() -> None:
    pending = pending_runs()

    pending.add_acknowledged(TP, Report([OffsetRun(100, 150, 0, 50)]))

    assert pending.positions() == {TP: Position(150, 50)}
    assert pending.batch_starts() == {TP: 100}
    assert pending.take() == {TP: [OffsetRun(100, 150, 0, 50)]}


def test_a_batch_that_agrees_moves_the_position_over_the_gap_at_its_end() -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 150, 0, 50)]))

    pending.add_batch(0, {TP: 100}, {TP: 152}, {TP: 50})

    assert pending.positions() == {TP: Position(152, 50)}
    assert not pending.unconfirmed()


def test_a_report_that_already_holds_the_next_batch_agrees_too() -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 180, 0, 80)]))

    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})

    assert pending.positions() == {TP: Position(180, 80)}
    assert pending.take() == {TP: [OffsetRun(100, 180, 0, 80)]}


def test_a_batch_waits_for_its_reports() -> None:
    pending = pending_runs()

    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})
    pending.add_acknowledged(TP, Report([OffsetRun(100, 140, 0, 40)]))
    waiting = pending.unconfirmed()
    pending.add_acknowledged(TP, Report([OffsetRun(140, 150, 40, 10)]))

    assert waiting == {TP: Position(150, 50)}
    assert not pending.unconfirmed()


def test_without_its_reports_the_batch_counts_and_late_reports_change_nothing() -> None:
    pending = pending_runs()
    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})

    pending.accept_batches([TP])
    pending.add_acknowledged(TP, Report([OffsetRun(100, 160, 0, 60)]))

    assert pending.positions() == {TP: Position(160, 60)}
    assert pending.take() == {TP: [OffsetRun(100, 160, 0, 60)]}


def test_batches_that_each_wait_for_a_moment_are_not_overdue() -> None:
    pending, overdue = pending_runs(), Overdue(5)
    found: list[TopicPartition] = []

    for second in range(20):  # one has ended before each look, the one before it is reported
        start = 100 + second
        pending.add_batch(second, {TP: start}, {TP: start + 1}, {TP: 1})
        if second:
            report = Report([OffsetRun(start - 1, start, second - 1, 1)])
            pending.add_acknowledged(TP, report)
        found += overdue.look(pending.unconfirmed(), second)

    assert found == []


def test_a_batch_that_is_not_reported_is_overdue_whatever_others_do() -> None:
    other = TopicPartition("orders", 1)
    pending, overdue = PendingRuns({TP: START, other: START}, spacing=0), Overdue(5)
    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})
    found = [overdue.look(pending.unconfirmed(), now) for now in (3, 7)]
    pending.add_batch(1, {TP: 150, other: 100}, {TP: 160, other: 120}, {TP: 10, other: 20})

    found.append(overdue.look(pending.unconfirmed(), 8))
    pending.accept_batches(found[-1])

    assert found == [[], [], [TP]]
    assert pending.unconfirmed() == {other: Position(120, 20)}
    assert pending.positions() == {TP: Position(160, 60), other: START}


@pytest.mark.parametrize(
    ("end", "count"),
    [
        pytest.param(150, 49, id="fewer than acknowledged"),
        pytest.param(149, 49, id="an earlier end, all offsets with records"),
        pytest.param(145, 45, id="inside the gap's far side"),
    ],
)
def test_a_batch_that_contradicts_the_reports_is_a_gap(end: int, count: int) -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 140, 0, 40), OffsetRun(145, 160, 41, 15)]))

    with pytest.raises(ProgressGapError, match="batch 7, orders-0: the batch ends at"):
        pending.add_batch(7, {TP: 100}, {TP: end}, {TP: count})


def test_a_report_from_before_the_position_is_a_gap() -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 140, 0, 40)]))

    said = "orders-0: executors report source offsets .* position is source offset 140 at target"
    with pytest.raises(ProgressGapError, match=said):
        pending.add_acknowledged(TP, Report([OffsetRun(130, 150, 40, 20)]))


def test_the_map_in_memory_gets_each_run_once_whenever_the_table_is_written() -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 140, 0, 40)]))
    first = pending.take_new()
    pending.take()
    pending.add_acknowledged(TP, Report([OffsetRun(150, 160, 40, 10)]))

    second = pending.take_new()

    assert (first, pending.take_new()) == ({TP: [OffsetRun(100, 140, 0, 40)]}, {})
    answers = OffsetMap([*first[TP], *second[TP]])
    assert [answers.translate(at) for at in (120, 155)] == [Exact(20), Exact(45)]


def test_an_idle_partition_moves_over_markers() -> None:
    pending = pending_runs()

    pending.skip(TP, 104)
    pending.add_batch(0, {TP: 100}, {TP: 100}, {})
    pending.add_acknowledged(TP, Report([OffsetRun(104, 110, 0, 6)]))
    pending.add_batch(1, {TP: 100}, {TP: 110}, {TP: 6})

    assert pending.positions() == {TP: Position(110, 6)}


def test_an_idle_partition_moves_over_markers_in_the_midst_of_a_batch() -> None:
    pending = pending_runs()
    pending.add_acknowledged(TP, Report([OffsetRun(100, 150, 0, 50)]))

    pending.skip(TP, 152)
    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})
    pending.add_acknowledged(TP, Report([OffsetRun(152, 160, 50, 8)]))
    pending.add_batch(1, {TP: 150}, {TP: 160}, {TP: 8})

    assert not pending.unconfirmed()
    assert pending.positions() == {TP: Position(160, 58)}


def test_a_partition_is_not_idle_while_reports_of_its_finished_batch_are_out() -> None:
    pending = pending_runs()
    pending.add_batch(0, {TP: 100}, {TP: 150}, {TP: 50})

    pending.skip(TP, 152)

    assert pending.positions() == {TP: START}
    pending.add_acknowledged(TP, Report([OffsetRun(100, 150, 0, 50)]))
    assert pending.positions() == {TP: Position(150, 50)}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(OffsetRun(100, 110, 1, 10), id="another writer's record came first"),
        pytest.param(OffsetRun(105, 110, 6, 5), id="more records before it than the source has"),
    ],
)
def test_a_report_beyond_what_the_target_can_hold_is_a_gap(run: OffsetRun) -> None:
    pending = pending_runs()

    with pytest.raises(ProgressGapError, match="orders-0: executors report"):
        pending.add_acknowledged(TP, Report([run]))

    assert pending.positions() == {TP: START}


def test_without_reports_too_an_idle_partition_moves_over_markers() -> None:
    pending = PendingRuns({TP: START})

    pending.skip(TP, 104)
    pending.add_batch(0, {TP: 100}, {TP: 100}, {})
    pending.add_batch(1, {TP: 100}, {TP: 110}, {TP: 6})

    assert pending.positions() == {TP: Position(110, 6)}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    """Source offsets with records, batch ends, report sizes, and the spacing."""
    end = draw(st.integers(101, 180))
    density = draw(st.sampled_from([1, 2, 20, 100]))  # in percent of gaps: none, half, most
    records = [
        offset for offset in range(100, end) if draw(st.integers(0, 99)) >= density or density == 1
    ]
    ends = sorted({*draw(st.lists(st.integers(100, end), max_size=4)), end})
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=10))
    return records, ends, sizes, draw(st.sampled_from([0, 2, 7, 100]))


def reports(records: list[int], sizes: list[int], spacing: int) -> list[list[OffsetRun]]:
    """What executors send: runs per dense range, neighbours joined up to *spacing* records."""
    found: list[list[OffsetRun]] = []
    at = 0
    while at < len(records):
        size = sizes[len(found) % len(sizes)]
        runs: list[OffsetRun] = []
        for downstream, upstream in enumerate(records[at : at + size], start=at):
            run = OffsetRun(upstream, upstream + 1, downstream, 1)
            last = runs[-1] if runs else None
            if (last and last.src_until == upstream and last.is_dense) or (
                last and last.count < spacing
            ):
                runs[-1] = OffsetRun(last.src_from, upstream + 1, last.tgt_from, last.count + 1)
            else:
                runs.append(run)
        found.append(runs)
        at += size
    return found


@given(histories(), st.data())
def test_in_any_order_of_reports_and_batches_the_map_is_safe_and_complete(
    history: tuple[list[int], list[int], list[int], int], data: st.DataObject
) -> None:
    records, ends, sizes, spacing = history
    pending = pending_runs(spacing)
    waiting = reports(records, sizes, spacing)
    runs, start = [anchor(START)], 100

    for number, end in enumerate(ends):
        due = sum(1 for offset in records if offset < end)
        while data.draw(st.booleans()) and waiting and waiting[0][0].tgt_from < due:
            pending.add_acknowledged(TP, Report(waiting.pop(0)))
        count = sum(1 for offset in records if start <= offset < end)
        pending.add_batch(number, {TP: start}, {TP: end}, {TP: count})
        runs += pending.take().get(TP, [])
        start = end
    for report in waiting:
        pending.add_acknowledged(TP, Report(report))
    runs += pending.take().get(TP, [])

    assert not pending.unconfirmed()
    assert pending.positions() == {TP: Position(ends[-1], len(records))}
    answers = OffsetMap(runs)
    for committed in range(100, ends[-1] + 1):
        true = sum(1 for offset in records if offset < committed)
        answer = answers.translate(committed)
        assert not isinstance(answer, NoAnswer)
        assert answer.offset <= true
        assert true - answer.offset <= max(spacing, 0), "a border every so many records"


@given(st.data())
def test_wherever_batches_leave_a_partition_out_the_map_has_what_was_copied(
    data: st.DataObject,
) -> None:
    pending = pending_runs(7)
    runs: list[OffsetRun] = []
    waiting: list[int] = []  # acknowledged, and not reported yet
    at, batch, end = 100, 0, 100
    for _ in range(data.draw(st.integers(1, 8))):
        start, end = at, max(end, at) + data.draw(st.integers(0, 9))
        left = data.draw(st.integers(at, end))
        waiting += range(at, left)
        at = left
        if left < end:
            pending.leave_out(TP, LeftOut(batch, left))
        pending.add_batch(batch, {TP: start}, {TP: end}, {TP: left - start})
        if left < end:
            batch += 1
            pending.add_batch(batch, {TP: end}, {TP: left}, {})
        batch += 1
        while waiting and bool(data.draw(st.booleans())):
            one = waiting.pop(0)
            pending.add_acknowledged(TP, Report([OffsetRun(one, one + 1, one - 100, 1)]))
            runs += pending.take().get(TP, [])
    for one in waiting:
        pending.add_acknowledged(TP, Report([OffsetRun(one, one + 1, one - 100, 1)]))
    runs += pending.take().get(TP, [])

    assert not pending.unconfirmed()
    assert pending.positions() == {TP: Position(at, at - 100)}
    assert sum(run.count for run in runs) == at - 100
    assert all(run.is_dense for run in runs)


def test_coarser_runs_keep_to_their_bound() -> None:
    run, after = OffsetRun(0, 10, 0, 8), OffsetRun(10, 20, 8, 5)

    assert coarser(run, after, 13) == OffsetRun(0, 20, 0, 13)
    assert coarser(run, after, 12) is None
    assert coarser(run, OffsetRun(11, 20, 8, 5), 100) is None, "not adjacent"
