"""Thinning keeps every answer safe, gives up no more than it says, and bounds the map."""

from collections.abc import Sequence
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.offsets.map import NoAnswer, OffsetMap
from replication.offsets.runs import OffsetRun
from replication.offsets.thinning import RESOLUTION, thin_runs


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


def test_long_dense_runs_are_not_touched() -> None:
    runs = [OffsetRun(0, 1_000, 0, 1_000), OffsetRun(1_000, 1_002, 1_000, 1)]
    runs += [OffsetRun(1_002, 60_000, 1_001, 58_998)]

    assert thin_runs(runs)[0] == runs[0]
