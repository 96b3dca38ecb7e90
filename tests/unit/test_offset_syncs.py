"""The syncs of finished runs: spaced, safe for MirrorMaker 2's translator, and near the tip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.offsets.map import OffsetRun
from replication.offsets.syncs import offset_syncs
from tests.unit.test_offsets import TP, CopiedPartition, mm2_translate, worlds


def pairs(runs: list[OffsetRun], lag_max: int, until: int = 0) -> list[tuple[int, int]]:
    syncs = offset_syncs(TP, runs, lag_max=lag_max, replicated_until=until)
    return [(sync.upstream, sync.downstream) for sync in syncs]


@pytest.mark.parametrize(
    ("runs", "lag_max", "until", "expected"),
    [
        pytest.param(
            [OffsetRun(0, 10_000, 500, 10_000)],
            999,
            0,
            [(1999, 2499), (5999, 6499), (7999, 8499), (8999, 9499), (9999, 10_499)],
            id="dense: the last, and at 1, 2, 4, 8 spacings before it",
        ),
        pytest.param([OffsetRun(0, 1000, 0, 1000)], 999, 0, [(999, 999)], id="no longer than one"),
        pytest.param(
            [OffsetRun(0, 8, 0, 8)], 0, 0, [(3, 3), (5, 5), (6, 6), (7, 7)], id="lag 0: each power"
        ),
        pytest.param([OffsetRun(0, 10_000, 0, 9)], 0, 0, [(9999, 8)], id="sparse: its end alone"),
        pytest.param(
            [OffsetRun(i * 10, i * 10 + 10, i * 9, 9) for i in range(5)],
            17,
            0,
            [(9, 8), (29, 26), (49, 44)],
            id="short runs: spaced, and the last in any case",
        ),
        pytest.param(
            [OffsetRun(i * 10, i * 10 + 10, i * 9, 9) for i in range(5)],
            9,
            0,
            [(9, 8), (29, 26), (49, 44)],
            id="short runs: a distance of just the lag is too short",
        ),
        pytest.param(
            [OffsetRun(0, 1000, 2000, 1000)],
            99,
            900,
            [(999, 2999)],
            id="a repetition: its new part",
        ),
        pytest.param([OffsetRun(0, 800, 2000, 800)], 99, 900, [], id="a repetition, not caught up"),
        pytest.param([OffsetRun(5, 9, 3, 0)], 0, 0, [], id="no records"),
    ],
)
def test_which_syncs_are_written(
    runs: list[OffsetRun], lag_max: int, until: int, expected: list[tuple[int, int]]
) -> None:
    assert pairs(runs, lag_max, until) == expected


@given(worlds(), st.integers(0, 20), st.sets(st.integers(0, 30)))
def test_mirrormaker_never_passes_the_true_position(
    world: CopiedPartition, lag_max: int, unsent: set[int]
) -> None:
    syncs = pairs(world.runs, lag_max)
    sent = [sync for i, sync in enumerate(syncs) if i not in unsent]

    for committed in range(world.source_end + 3):
        answer = mm2_translate(sent, committed)
        assert answer is None or 0 <= answer <= world.true_position(committed)


@given(worlds(one_way=True), st.integers(0, 20), st.data())
def test_written_in_portions_they_are_as_safe(
    world: CopiedPartition, lag_max: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(world.runs)))
    first, second = world.runs[:cut], world.runs[cut:]
    until = max((run.src_until for run in first), default=0)
    syncs = pairs(first, lag_max) + pairs(second, lag_max, until)

    for committed in range(world.source_end + 3):
        answer = mm2_translate(syncs, committed)
        assert answer is None or 0 <= answer <= world.true_position(committed)
