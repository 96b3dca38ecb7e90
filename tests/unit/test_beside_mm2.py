"""The offset map beside MirrorMaker 2's 64 syncs, position by position, over four kinds of topics.

Both see the same acknowledged records. The truth is counted. The map must never pass it, and must
never send a group further back than MM2 does.
"""

import random
from collections.abc import Sequence
from itertools import count, pairwise

import pytest

from replication.model import Position, TopicPartition
from replication.offsets.map import LiveMap, NoAnswer, OffsetMap
from replication.offsets.pending import PendingRuns, Report
from replication.offsets.runs import RESOLUTION, OffsetRun
from tests.support.mm2_store import OffsetSyncStore, SyncRule

TP = TopicPartition("orders", 0)
IDS = {"orders": "id"}
OFFSETS = 24_000
LAG_MAX = 100
MM2_STEPS = [  # every tenth offset: which of them the store keeps, newest first
    (1_000, [1000, 990, 960, 900, 840, 720, 480, 0]),
    (10_000, [10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0]),
]


@pytest.mark.parametrize(("until", "expected"), MM2_STEPS)
def test_the_model_keeps_what_mirrormaker_keeps(until: int, expected: list[int]) -> None:
    store = OffsetSyncStore()
    for offset in range(0, until + 1, 10):
        store.add((offset, offset))

    assert list(dict.fromkeys(upstream for upstream, _ in store.slots)) == expected


def test_the_model_syncs_when_mirrormaker_syncs() -> None:
    pairs = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (8, 205)]

    assert list(SyncRule(50).synced(pairs)) == [(0, 100), (2, 102), (4, 153), (7, 204)]


@pytest.mark.parametrize("batch", [OFFSETS, 500], ids=["one batch", "small batches"])
@pytest.mark.parametrize("report", [200, 20_000], ids=["slow", "bulk load"])
@pytest.mark.parametrize(
    "gaps", [0, 0.02, 0.5, 0.95], ids=["dense", "transactional", "compacted", "very sparse"]
)
def test_no_position_is_past_the_true_one_or_worse_than_with_mirrormaker(
    gaps: float, report: int, batch: int
) -> None:
    dice = random.Random(gaps)  # noqa: S311 - the same topic in every run
    records = [offset for offset in range(OFFSETS) if dice.random() >= gaps]
    live, stored = maps(records, report, batch)
    store = OffsetSyncStore()
    for sync in SyncRule(LAG_MAX).synced(zip(records, count())):
        store.add(sync)

    ours = theirs = true = 0
    for committed in range(OFFSETS + 1):
        while true < len(records) and records[true] < committed:
            true += 1
        answer, after_restart = live.translate(committed), stored.translate(committed)
        assert not isinstance(answer, NoAnswer)
        assert not isinstance(after_restart, NoAnswer)
        behind = len(records) - true
        assert 0 <= true - answer.offset <= behind / RESOLUTION
        assert 0 <= true - after_restart.offset <= LAG_MAX + behind / RESOLUTION
        mm2 = store.translate(committed)
        assert mm2 is None or mm2 <= answer.offset, f"worse at {committed}"
        ours += true - answer.offset
        theirs += true - (mm2 or 0)
    assert ours * 20 <= theirs
    assert ours == 0 or gaps


def maps(records: Sequence[int], report: int, batch: int) -> tuple[OffsetMap, OffsetMap]:
    """The map in memory, and the one that the table holds, after *records* were copied.

    Args:
        records: Source offsets with records.
        report: Records that executors report at once.
        batch: Source offsets of one Spark batch.
    """
    store, syncs_of = OffsetSyncStore(), SyncRule(LAG_MAX).synced
    pending = PendingRuns({TP: Position(0, 0)}, spacing=LAG_MAX)
    live = LiveMap()
    live.attach()
    live.load({TP: 0}, {})
    rows: list[OffsetRun] = []
    reports = [(at, records[at : at + report]) for at in range(0, len(records), report)]
    for number, start in enumerate(range(0, OFFSETS, batch)):
        until = min(OFFSETS, start + batch)
        while reports and reports[0][1][0] < until:
            first, reported_records = reports.pop(0)
            for sync in syncs_of(zip(reported_records, count(first))):
                store.add(sync)
            kept = sorted({upstream for upstream, _ in store.slots})
            pending.add_acknowledged(TP, reported(dense_runs(first, reported_records), kept))
        written = sum(start <= offset < until for offset in records)
        pending.add_batch(number, {TP: start}, {TP: until}, {TP: written})
        new = pending.take_new()
        live.add(new, IDS, pending.mirror_syncs(new))
        rows += pending.take().get(TP, [])
    assert not pending.unconfirmed()
    return live.maps([TP])[TP].offsets, OffsetMap(rows)


def reported(runs: Sequence[OffsetRun], syncs: Sequence[int]) -> Report:
    """What `PartitionCopy.java` reports of dense *runs* while MM2 keeps *syncs*."""
    end = runs[-1].tgt_until
    joined = list(runs[:1])
    for run in runs[1:]:
        last = joined[-1]
        limit = min(LAG_MAX, (end - run.tgt_until) // RESOLUTION)
        holds_sync = any(last.src_from <= sync < last.src_until for sync in syncs)
        if not holds_sync and last.count + run.count <= limit:
            count = last.count + run.count
            joined[-1] = OffsetRun(last.src_from, run.src_until, last.tgt_from, count)
        else:
            joined.append(run)
    return Report(joined, tuple(syncs))


def dense_runs(first: int, records: Sequence[int]) -> list[OffsetRun]:
    """The dense ranges of *records*, the first of which is at target offset *first*."""
    runs = [OffsetRun(records[0], records[0] + 1, first, 1)]
    for last, offset in pairwise(records):
        run = runs[-1]
        if offset == last + 1:
            runs[-1] = OffsetRun(run.src_from, offset + 1, run.tgt_from, run.count + 1)
        else:
            runs.append(OffsetRun(offset, offset + 1, run.tgt_until, 1))
    return runs
