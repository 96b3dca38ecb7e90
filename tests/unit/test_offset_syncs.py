"""Offset syncs of finished runs: spaced, safe under MirrorMaker 2's rule, and near the log end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position
from replication.offsets.runs import OffsetRun, anchor
from replication.offsets.syncs import last_sync, offset_syncs
from tests.support.copied_partition import (
    ORDERS_0,
    CopiedPartition,
    copied_partitions,
    mm2_translate,
)

DENSE, SPARSE = OffsetRun(100, 200, 0, 100), OffsetRun(200, 240, 100, 30)
REWOUND, CAUGHT_UP = OffsetRun(150, 160, 100, 10), OffsetRun(150, 250, 100, 100)


def pairs(runs: list[OffsetRun], lag_max: int, until: int = 0) -> list[tuple[int, int]]:
    syncs = offset_syncs(ORDERS_0, runs, lag_max=lag_max, replicated_until=until)
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


@given(copied_partitions(), st.integers(0, 20), st.sets(st.integers(0, 30)))
def test_mirrormaker_never_passes_the_true_position(
    copied: CopiedPartition, lag_max: int, unsent: set[int]
) -> None:
    syncs = pairs(copied.runs, lag_max)
    sent = [sync for i, sync in enumerate(syncs) if i not in unsent]

    for committed in range(copied.source_end + 3):
        answer = mm2_translate(sent, committed)
        assert answer is None or 0 <= answer <= copied.true_position(committed)


@given(copied_partitions(one_way=True), st.integers(0, 20), st.data())
def test_written_in_portions_they_are_as_safe(
    copied: CopiedPartition, lag_max: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(copied.runs)))
    first, second = copied.runs[:cut], copied.runs[cut:]
    until = max((run.src_until for run in first), default=0)
    syncs = pairs(first, lag_max) + pairs(second, lag_max, until)

    for committed in range(copied.source_end + 3):
        answer = mm2_translate(syncs, committed)
        assert answer is None or 0 <= answer <= copied.true_position(committed)


@given(copied_partitions(), st.sets(st.integers(0, 10)))
def test_mirrormaker_never_passes_the_true_position_by_last_syncs(
    copied: CopiedPartition, unsent: set[int]
) -> None:
    syncs: list[tuple[int, int]] = []
    replicated_until = 0
    for run in copied.runs:
        sync = last_sync(run, replicated_until=replicated_until)
        syncs += [sync] if sync else []
        replicated_until = max(replicated_until, run.src_until)
    sent = [sync for i, sync in enumerate(syncs) if i not in unsent]

    for committed in range(copied.source_end + 3):
        answer = mm2_translate(sent, committed)
        assert answer is None or 0 <= answer <= copied.true_position(committed)
    if not unsent and syncs and copied.runs[-1].count:
        assert syncs[-1][1] < copied.end


@pytest.mark.parametrize(
    ("run", "replicated_until", "expected"),
    [
        pytest.param(DENSE, 0, (199, 99), id="the last record"),
        pytest.param(SPARSE, 200, (239, 129), id="sparse, whether or not 239 is a record"),
        pytest.param(OffsetRun(0, 10, 0, 0), 0, None, id="no records: it would need offset -1"),
        pytest.param(anchor(Position(9, 9)), 0, None, id="anchor"),
        pytest.param(REWOUND, 200, None, id="a repetition that has not caught up"),
        pytest.param(CAUGHT_UP, 200, (249, 199), id="a repetition that has"),
    ],
)
def test_last_sync(run: OffsetRun, replicated_until: int, expected: tuple[int, int] | None) -> None:
    assert last_sync(run, replicated_until=replicated_until) == expected
