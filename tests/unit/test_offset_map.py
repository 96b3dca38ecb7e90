"""The offset map against a brute-force model of a replicated partition."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position
from replication.offsets.map import (
    Ahead,
    Bounded,
    Exact,
    NoAnswer,
    OffsetMap,
    Translation,
    sure_offset,
    translate,
    translate_back,
)
from replication.offsets.pending import WaitingRuns
from replication.offsets.runs import OffsetRun, anchor, coarser, merge_runs
from tests.support.copied_partition import (
    CopiedPartition,
    bound_of,
    copied_partitions,
    offset_of,
)

# --- one partition's history in literal numbers -------------------------------------------------

DENSE, SPARSE = OffsetRun(100, 200, 0, 100), OffsetRun(200, 240, 100, 30)
HISTORY = (DENSE, SPARSE)
SKIPPED = (DENSE, OffsetRun(500, 600, 100, 100))
AT_500 = (anchor(Position(500, 100)),)
OTHERS = (OffsetRun(500, 600, 120, 100),)
REWOUND = (DENSE, OffsetRun(150, 160, 100, 10))
CAUGHT_UP = (DENSE, OffsetRun(150, 250, 100, 100))


@pytest.mark.parametrize(
    ("runs", "committed", "expected"),
    [
        pytest.param((), 7, NoAnswer("nothing replicated", None), id="no runs"),
        pytest.param(HISTORY, 99, Bounded(0, 0, 1), id="before the first run"),
        pytest.param(HISTORY, 100, Exact(0), id="at the start"),
        pytest.param(HISTORY, 142, Exact(42), id="dense"),
        pytest.param(HISTORY, 200, Exact(100), id="start of a sparse run"),
        pytest.param(HISTORY, 205, Bounded(100, 5), id="sparse, near its start"),
        pytest.param(HISTORY, 230, Bounded(120, 10), id="sparse, near its end: all ten gaps"),
        pytest.param(HISTORY, 240, Exact(130), id="at the end"),
        pytest.param(HISTORY, 999, Ahead(130, 759), id="past the end"),
        pytest.param((anchor(Position(50, 7)),), 50, Exact(7), id="on an anchor"),
        pytest.param((anchor(Position(50, 7)),), 51, Ahead(7, 1), id="past an anchor"),
        pytest.param(SKIPPED, 300, Bounded(100, 0, 200), id="in a skipped range: what follows it"),
        pytest.param(SKIPPED, 200, Bounded(100, 0, 300), id="before a skipped range"),
        pytest.param(SKIPPED, 199, Exact(99), id="the next record is there, and then some are not"),
        pytest.param(SKIPPED[:1] + AT_500, 300, Bounded(100, 0, 200), id="nothing follows it yet"),
        pytest.param(SKIPPED[:1] + AT_500, 500, Exact(100), id="at the position behind it"),
        pytest.param(SKIPPED[:1] + OTHERS, 210, Bounded(100, 10, 270), id="some may be there"),
        pytest.param(REWOUND, 120, Exact(20), id="rewound later"),
        pytest.param(REWOUND, 155, Bounded(60, 5), id="repeated, but 160.. only before it"),
        pytest.param(REWOUND, 200, Bounded(110, 40), id="all read, 160.. will be repeated"),
        pytest.param(CAUGHT_UP, 155, Exact(105), id="repetition caught up: the newest copy"),
        pytest.param(CAUGHT_UP, 149, Exact(49), id="before the repetition"),
    ],
)
def test_translate_to_the_target(
    runs: Sequence[OffsetRun], committed: int, expected: Translation
) -> None:
    assert translate(runs, committed) == expected


ADOPTED = (anchor(Position(1000, 700)), OffsetRun(1000, 1100, 700, 100))
LATE = (OffsetRun(500, 600, 20, 100),)


@pytest.mark.parametrize(
    ("runs", "committed", "start", "expected"),
    [
        pytest.param(HISTORY, 40, None, Bounded(0, 0, 60), id="no log starts before 0"),
        pytest.param(HISTORY, 40, 0, Bounded(0, 0, 60), id="the first copy skips nothing"),
        pytest.param(HISTORY, 40, 30, Bounded(30, 0, 60), id="the first copies were deleted"),
        pytest.param(ADOPTED, 600, 0, Bounded(0, 700), id="earlier copies may be all of its own"),
        pytest.param(ADOPTED, 100, 0, Bounded(0, 700, 200), id="more than there are copies"),
        pytest.param(ADOPTED, 100, 650, Bounded(650, 50, 850), id="most of them were deleted"),
        pytest.param(ADOPTED, 100, 700, Bounded(700, 0, 900), id="all of them were deleted"),
        pytest.param(ADOPTED, 100, None, NoAnswer("before the first run", 1000), id="unknown"),
        pytest.param(LATE, 499, 20, Bounded(20, 0, 1), id="the first copy is where the log starts"),
        pytest.param(LATE, 499, 0, Bounded(0, 20), id="others' records may be its own"),
        pytest.param(ADOPTED, 1000, 0, Exact(700), id="where the map starts it is exact"),
    ],
)
def test_a_group_before_the_map_gets_the_earliest_copy_that_skips_nothing(
    runs: Sequence[OffsetRun], committed: int, start: int | None, expected: Translation
) -> None:
    assert OffsetMap(runs).translate(committed, start) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, Bounded(0, 1000)),
        (990, Bounded(990, 10)),
        (1000, Bounded(1000, 0)),
        (1050, Bounded(1000, 0)),
        (None, NoAnswer("before the first run", 700)),
    ],
)
def test_a_group_before_the_map_goes_back_to_where_the_source_starts(
    start: int | None, expected: Translation
) -> None:
    assert OffsetMap(ADOPTED).translate_back(699, start) == expected


@pytest.mark.parametrize(
    ("runs", "committed", "expected"),
    [
        pytest.param((), 7, NoAnswer("nothing replicated", None), id="no runs"),
        pytest.param(
            (anchor(Position(50, 7)),),
            6,
            NoAnswer("before the first run", 7),
            id="before the first run",
        ),
        pytest.param((anchor(Position(50, 7)),), 7, Exact(50), id="on an anchor"),
        pytest.param(HISTORY, 0, Exact(100), id="at the start"),
        pytest.param(HISTORY, 42, Exact(142), id="dense"),
        pytest.param(HISTORY, 100, Exact(200), id="start of a sparse run"),
        pytest.param(HISTORY, 104, Bounded(204, 4), id="sparse, near its start"),
        pytest.param(HISTORY, 125, Bounded(225, 10), id="sparse, near its end: all ten gaps"),
        pytest.param(HISTORY, 130, Exact(240), id="at the end"),
        pytest.param(HISTORY, 133, Ahead(240, 3), id="past the end"),
        pytest.param(SKIPPED, 100, Exact(200), id="before a skipped range: never past it"),
        pytest.param(SKIPPED, 101, Exact(501), id="after a skipped range"),
        pytest.param(REWOUND, 105, Exact(200), id="in the repetition: all before was read"),
        pytest.param(CAUGHT_UP, 105, Exact(200), id="in what was read twice"),
        pytest.param(CAUGHT_UP, 151, Exact(201), id="past what was read twice"),
        pytest.param(
            (DENSE, OffsetRun(200, 210, 105, 10)),
            103,
            Bounded(200, 3),
            id="in another producer's records",
        ),
        pytest.param(
            (DENSE, OffsetRun(200, 210, 105, 10)),
            106,
            Exact(201),
            id="past another producer's records",
        ),
    ],
)
def test_translate_back_to_the_source(
    runs: Sequence[OffsetRun], committed: int, expected: Translation
) -> None:
    assert translate_back(runs, committed) == expected


@pytest.mark.parametrize("ask", [translate, translate_back])
def test_a_negative_offset_is_not_a_position(
    ask: Callable[[Sequence[OffsetRun], int], Translation],
) -> None:
    with pytest.raises(ValueError, match="must be 0 or more, got -1"):
        ask(HISTORY, -1)


# --- the invariants -----------------------------------------------------------------------------


@given(copied_partitions())
def test_never_past(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.start, copied.source_end + 3):
        assert offset_of(answers.translate(committed)) <= copied.true_position(committed)


@given(copied_partitions(unrecorded=True))
def test_a_hole_beside_a_hole_is_unknown(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.start, copied.source_end + 3):
        answer = answers.translate(committed)
        assert offset_of(answer) <= copied.true_position(committed)
        assert copied.reread(committed, offset_of(answer)) <= bound_of(answer)


@given(copied_partitions(unrecorded=True))
def test_a_hole_beside_a_hole_is_unknown_on_the_way_back(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.first, copied.end + 3):
        answer = answers.translate_back(committed)
        assert offset_of(answer) <= copied.true_position_back(committed)
        assert copied.reread_back(committed, offset_of(answer)) <= bound_of(answer)


@given(copied_partitions(one_way=True))
def test_exact_where_dense(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for run in copied.runs:
        inside = range(run.src_from, run.src_until + 1)
        for committed in inside if run.is_dense else (run.src_from, run.src_until):
            answer = answers.translate(committed)
            assert sure_offset(answer) == copied.true_position(committed)
            assert isinstance(answer, Exact) or committed == run.src_until
            back = answers.translate_back(copied.true_position(committed))
            assert isinstance(back, Exact)
            assert not copied.records & set(range(committed, back.offset))


@given(copied_partitions())
def test_honest_bound(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.start, copied.source_end + 3):
        answer = answers.translate(committed)
        assert copied.reread(committed, offset_of(answer)) <= bound_of(answer)


@given(copied_partitions(one_way=True))
def test_the_bound_is_at_most_the_gaps_of_the_run(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for run in copied.runs:
        gaps = run.src_until - run.src_from - run.count
        for committed in range(run.src_from, run.src_until):
            assert bound_of(answers.translate(committed)) <= gaps


@given(copied_partitions(unrecorded=True))
def test_monotonic(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)
    there = [offset_of(answers.translate(c)) for c in range(copied.start, copied.source_end + 3)]
    back = [offset_of(answers.translate_back(c)) for c in range(copied.first, copied.end + 3)]

    assert there == sorted(there)
    assert back == sorted(back)


@given(copied_partitions())
def test_never_past_back(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.first, copied.end + 3):
        answer = answers.translate_back(committed)
        assert offset_of(answer) <= copied.true_position_back(committed)
        assert copied.reread_back(committed, offset_of(answer)) <= bound_of(answer)


@given(copied_partitions(one_way=True))
def test_a_round_trip_changes_nothing_on_a_dense_run(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for run in merge_runs(copied.runs):
        for committed in range(run.src_from, run.src_until) if run.is_dense else ():
            there = offset_of(answers.translate(committed))
            assert answers.translate_back(there) == Exact(committed)


@given(copied_partitions())
def test_a_round_trip_skips_no_record(copied: CopiedPartition) -> None:
    answers = OffsetMap(copied.runs)

    for committed in range(copied.start, copied.source_end):
        there = offset_of(answers.translate(committed))
        back = offset_of(answers.translate_back(there))
        unread = set(copied.target) - set(copied.target[: there - copied.first])
        assert not unread & set(range(committed, back))


def fine_and_coarse(copied: CopiedPartition) -> tuple[list[OffsetRun], list[OffsetRun]]:
    """The map of a process in memory, with a border at each gap, and what it writes of it."""
    fine: list[OffsetRun] = []
    coarse: list[OffsetRun] = []
    for run in copied.runs:
        waiting = WaitingRuns(0)
        at, downstream = run.src_from, run.tgt_from
        for offset in range(run.src_from, run.src_until):
            if offset in copied.records:
                waiting.add(OffsetRun(at, offset, downstream, 0))
                waiting.add(OffsetRun(offset, offset + 1, downstream, 1))
                at, downstream = offset + 1, downstream + 1
        waiting.add(OffsetRun(at, run.src_until, downstream, 0))
        fine += [run, *waiting.take()] if run.is_anchor else waiting.take()
        joined = coarser(coarse[-1], run, 100) if coarse else None
        coarse[-1:] = [joined] if joined else [*coarse[-1:], run]
    return fine, coarse


@given(copied_partitions(), st.sets(st.integers(0, 30)), st.randoms())
def test_a_table_with_the_borders_of_groups_is_as_exact_there_and_as_safe_elsewhere(
    copied: CopiedPartition, committed: set[int], order: Random
) -> None:
    fine, coarse = fine_and_coarse(copied)
    live, before = OffsetMap(fine), OffsetMap(coarse)
    borders = [border for each in committed if (border := live.border_at(each)) is not None]
    rows: list[OffsetRun] = []
    for (
        run
    ) in coarse:  # a row is as old as the run that it divides, and rows of an age have no order
        of_run = [run, *(end for border in borders if (end := run.end_from(border)))]
        assert {each.end for each in of_run} == {run.end}
        order.shuffle(of_run)
        rows += of_run
    table = OffsetMap(rows)

    for offset in range(copied.start, copied.source_end + 3):
        answer = table.translate(offset)
        assert offset_of(answer) <= copied.true_position(offset)
        assert copied.reread(offset, offset_of(answer)) <= bound_of(answer)
        assert offset_of(answer) >= offset_of(before.translate(offset))
    for back in range(copied.first, copied.end + 3):
        found = table.translate_back(back)
        assert offset_of(found) <= copied.true_position_back(back)
        assert copied.reread_back(back, offset_of(found)) <= bound_of(found)


@given(copied_partitions(one_way=True), st.sets(st.integers(0, 30)))
def test_where_nothing_is_repeated_the_table_answers_groups_as_the_map_in_memory_does(
    copied: CopiedPartition, committed: set[int]
) -> None:
    fine, coarse = fine_and_coarse(copied)
    live = OffsetMap(fine)
    borders = [border for each in committed if (border := live.border_at(each)) is not None]
    ends = [end for border in borders for run in coarse if (end := run.end_from(border))]

    table = OffsetMap([*coarse, *ends])

    for border in borders:
        if isinstance(live.translate(border.upstream), Exact):
            assert table.translate(border.upstream) == live.translate(border.upstream)
