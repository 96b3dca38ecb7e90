"""Thinning keeps every answer safe, gives up no more than it says, and bounds the map."""

from bisect import bisect_left
from collections.abc import Sequence
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replication.model import Position
from replication.offsets.map import NoAnswer, OffsetMap
from replication.offsets.runs import (
    RESOLUTION,
    OffsetRun,
    anchor,
    compact_runs,
    merge_runs,
    thin_runs,
)
from tests.support.copied_partition import (
    CopiedPartition,
    bound_of,
    copied_partitions,
    offset_of,
)


def log_of(gaps: Sequence[int]) -> list[int]:
    """Source offsets with records; before each lies a gap of so many offsets."""
    offsets, at = [], 0
    for gap in gaps:
        at += gap
        offsets.append(at)
        at += 1
    return offsets


def runs_of(offsets: Sequence[int]) -> list[OffsetRun]:
    """A run for each dense range, and one without records for each gap."""
    runs: list[OffsetRun] = []
    at = 0
    for downstream, upstream in enumerate(offsets):
        if upstream > at:
            runs.append(OffsetRun(at, upstream, downstream, 0))
        last = runs[-1] if runs else None
        if last and last.count and last.src_until == upstream:
            runs[-1] = OffsetRun(last.src_from, upstream + 1, last.tgt_from, last.count + 1)
        else:
            runs.append(OffsetRun(upstream, upstream + 1, downstream, 1))
        at = upstream + 1
    return runs


def thinned_often(runs: Sequence[OffsetRun], every: int) -> list[OffsetRun]:
    """What is left when the map is thinned each time it has grown by *every* runs."""
    kept: list[OffsetRun] = []
    for at in range(0, len(runs), every):
        kept = thin_runs([*kept, *runs[at : at + every]])
    return kept


@given(st.lists(st.sampled_from([0, 0, 1, 5]), min_size=1, max_size=1_500), st.integers(10, 300))
def test_answers_stay_safe_and_within_the_bound(gaps: list[int], every: int) -> None:
    offsets = log_of(gaps)
    answers = OffsetMap(thinned_often(runs_of(offsets), every))

    for place, committed in enumerate(offsets):
        answer = answers.translate(committed)
        assert not isinstance(answer, NoAnswer)
        assert 0 <= place - answer.offset <= (len(offsets) - place) // RESOLUTION


@pytest.mark.parametrize("gap", [1, 20], ids=["compacted by half", "by 95 %"])
def test_a_partition_keeps_few_runs_however_many_records_it_had(gap: int) -> None:
    records = 40_000

    kept = thinned_often(runs_of(log_of([gap] * records)), 2_000)

    # each gap makes two runs, and the newest ones are not thinned yet
    assert len(kept) <= 2 * RESOLUTION * (log(records / RESOLUTION) + 2) + 2_000


def test_a_map_without_runs_stays_empty() -> None:
    assert thin_runs([]) == []


def test_long_dense_runs_are_not_touched() -> None:
    runs = [OffsetRun(0, 1_000, 0, 1_000), OffsetRun(1_000, 1_002, 1_000, 1)]
    runs += [OffsetRun(1_002, 60_000, 1_001, 58_998)]

    assert thin_runs(runs)[0] == runs[0]


def test_a_range_that_was_copied_again_after_a_rewind_keeps_its_runs() -> None:
    copied = OffsetRun(0, 100, 0, 100)
    again = [OffsetRun(50, 51, 100, 1), OffsetRun(51, 52, 102, 1)]  # another's record between
    runs = [copied, *again, OffsetRun(52, 10_000, 200, 9_948)]

    # A range without runs says that nothing is known of it, and offset 50 is known from `copied`.
    assert thin_runs(runs) == runs


@pytest.mark.parametrize(
    ("next_source", "borders"),
    [
        pytest.param(53, [Position(50, 100)], id="the next run begins where the range ends"),
        pytest.param(
            60, [Position(50, 100), Position(53, 106)], id="offsets are missing behind it"
        ),
    ],
)
def test_a_range_without_runs_ends_where_the_next_record_begins(
    next_source: int, borders: list[Position]
) -> None:
    alone = [OffsetRun(50, 51, 100, 1), OffsetRun(51, 52, 102, 1), OffsetRun(52, 53, 105, 1)]
    after = OffsetRun(next_source, next_source + 10_000, 200, 10_000)

    assert thin_runs([*alone, after]) == [*(anchor(border) for border in borders), after]


# --- remote partitions that others write, too ---------------------------------------------------

SHARED_RECORD = st.tuples(st.sampled_from([0, 0, 0, 2]), st.sampled_from([0, 0, 1, 7]))
"""Source offsets without a record before this one, and others' records before its copy."""


def copies_of(records: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The source offset of each record, and the target offset of its copy."""
    copies, upstream, downstream = [], 0, 0
    for missing, others in records:
        upstream, downstream = upstream + missing, downstream + others
        copies.append((upstream, downstream))
        upstream, downstream = upstream + 1, downstream + 1
    return copies


def shared_runs_of(copies: Sequence[tuple[int, int]]) -> list[OffsetRun]:
    """The runs as executors report them: a gap of the source is one without records."""
    runs: list[OffsetRun] = []
    position = (0, 0)
    for upstream, downstream in copies:
        if position[0] < upstream:
            runs.append(OffsetRun(position[0], upstream, position[1], 0))
        runs.append(OffsetRun(upstream, upstream + 1, downstream, 1))
        position = upstream + 1, downstream + 1
    return merge_runs(runs)


@given(st.lists(SHARED_RECORD, min_size=1, max_size=60), st.integers(1, 20), st.integers(10, 300))
def test_a_shared_map_skips_nothing_in_either_direction_and_keeps_the_bound(
    pattern: list[tuple[int, int]], times: int, every: int
) -> None:
    copies = copies_of(pattern * times)
    sources, targets = [s for s, _ in copies], [t for _, t in copies]
    source_end, log_end = sources[-1] + 1, targets[-1] + 1
    answers = OffsetMap(thinned_often(shared_runs_of(copies), every))

    for committed in range(source_end + 1):
        read = bisect_left(sources, committed)
        answer = answers.translate(committed)
        again = read - bisect_left(targets, offset_of(answer))
        assert again <= bound_of(answer)
        assert offset_of(answer) <= [*targets, log_end][read]
        assert again <= (log_end - offset_of(answer)) // RESOLUTION
    for committed in range(targets[0], log_end + 1):
        read = bisect_left(targets, committed)
        answer = answers.translate_back(committed)
        again = read - bisect_left(sources, offset_of(answer))
        assert again <= bound_of(answer)
        assert offset_of(answer) <= [*sources, source_end][read]
        assert again <= (log_end - committed) // RESOLUTION + 1


@settings(max_examples=1_000)
@given(copied_partitions(unrecorded=True), st.integers(1, 3), st.integers(1, 6))
def test_whatever_happened_to_a_partition_nothing_is_skipped(
    copied: CopiedPartition, resolution: int, every: int
) -> None:
    kept: list[OffsetRun] = []
    for at in range(0, len(copied.runs), every):
        kept = thin_runs(merge_runs([*kept, *copied.runs[at : at + every]]), resolution=resolution)
    answers = OffsetMap(kept)

    for committed in range(copied.start, copied.source_end + 3):
        answer = answers.translate(committed)
        assert offset_of(answer) <= copied.true_position(committed)
        assert copied.reread(committed, offset_of(answer)) <= bound_of(answer)
    for committed in range(copied.first, copied.end + 3):
        answer = answers.translate_back(committed)
        assert offset_of(answer) <= copied.true_position_back(committed)
        assert copied.reread_back(committed, offset_of(answer)) <= bound_of(answer)


@given(copied_partitions())
def test_compaction_merges_and_thins_and_says_what_it_replaces(copied: CopiedPartition) -> None:
    runs = sorted(copied.runs, key=lambda run: (run.tgt_from, run.count))

    replaced = compact_runs(runs)

    assert [run for some, _ in replaced for run in some] == thin_runs(merge_runs(runs))
    ends = [*(place for _, place in replaced[1:]), len(runs)]
    for (some, place), end in zip(replaced, ends, strict=True):
        assert place < end
        assert some[0].tgt_from == runs[place].tgt_from
        assert some[-1].src_until <= max(run.src_until for run in runs[place:end])


def test_a_shared_partition_keeps_few_runs_however_many_records_it_had() -> None:
    records = 40_000

    kept = thinned_often(shared_runs_of(copies_of([(0, 1)] * records)), 2_000)

    assert len(kept) <= 2 * RESOLUTION * (log(2 * records / RESOLUTION) + 2) + 2_000
