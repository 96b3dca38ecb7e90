"""Compaction by delta-rs and by Spark: fewer rows, and the answers of the rule."""

import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import Flow, Position, TopicPartition
from replication.offsets.map import NoAnswer, OffsetMap
from replication.offsets.runs import (
    RESOLUTION,
    Epochs,
    FinishedRuns,
    OffsetRun,
    Stamp,
    Stamps,
    anchor,
    merge_runs,
    thin_runs,
)
from replication.state.offset_table import OffsetTable, compacted
from replication.state.table_reader import Anchor, StoredProgress
from replication.state.tables import Tables, reader_of
from tests.support.copied_partition import CopiedPartition, offset_of
from tests.support.frames import frame

pytestmark = pytest.mark.spark

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "id-1"}


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Tables:
    """The tables of a state directory of the test's own."""
    return Tables(spark, (tmp_path / getattr(request, "param", "state")).as_uri())


# delta-rs takes no name with a percent sign, so the second folder is for Spark to write
by_both = pytest.mark.parametrize(
    "tables", ["state", "my%20state"], ids=["by delta-rs", "by Spark"], indirect=True
)
by_both_at_length = pytest.mark.parametrize(
    "tables",
    [
        pytest.param("state", id="by delta-rs"),
        pytest.param("my%20state", id="by Spark", marks=pytest.mark.soak),
    ],
    indirect=True,
)


def append(tables: Tables, start: int, flow: Flow = FLOW, compact_after: int = 1_000) -> None:
    run = OffsetRun(start, start + 10, start, 10)
    table = OffsetTable(tables, flow, compact_after)
    epochs = {ORDERS_0: Epochs(start, None)}
    table.append(FinishedRuns(start + 1, {ORDERS_0: [run]}, IDS, epochs=epochs))


def rows(tables: Tables, flow: Flow = FLOW) -> list[tuple[object, ...]]:
    """The rows of *flow*, without what only tells where they came from."""
    found = frame(tables, "offset_runs", flow).orderBy("topic_id", "partition", "tgt_from")
    names = ("topic_id", "partition", "generation", "src_from", "src_until", "tgt_from", "count")
    return [tuple(row) for row in found.select(*names).collect()]


def some_copies(dice: random.Random) -> CopiedPartition:
    """A partition with what flows write of it: dense or with gaps, rewound, skipped, repeated."""
    density = dice.choice((1.0, 0.98, 0.5, 0.05))
    records = frozenset(offset for offset in range(12_000) if dice.random() < density)
    copied = CopiedPartition(records, 12_000, dice.randrange(9), dice.randrange(9))
    for _ in range(dice.randrange(1, 400)):
        upstream = copied.position.upstream
        match dice.choice((*["batch"] * 5, "rewind", "skip", "again")):
            case "batch":
                copied.replicate(dice.randrange(1, 40))
            case "rewind":
                copied.set_to(max(copied.start, upstream - dice.randrange(1, 9)))
            case "skip":
                copied.set_to(upstream + dice.randrange(1, 9))
            case _:
                copied.runs.append(copied.runs[-1])
    return copied


def stored_rows(
    tables: Tables, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[OffsetRun]]:
    """The rows of each partition as they are in the table."""
    left: dict[TopicPartition, list[OffsetRun]] = {tp: [] for tp in partitions}
    for row in frame(tables, "offset_runs", FLOW).collect():
        run = OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])
        left[TopicPartition("orders", row["partition"])].append(run)
    return left


@by_both
def test_compaction_follows_the_rule(tables: Tables) -> None:
    seed = random.randrange(1_000_000)  # noqa: S311 - test data
    dice = random.Random(seed)  # noqa: S311 - test data
    copies = {TopicPartition("orders", number): some_copies(dice) for number in range(20)}
    partitions = {tp: copied.runs for tp, copied in copies.items()}
    total = sum(map(len, partitions.values()))

    OffsetTable(tables, FLOW, compact_after=total).append(FinishedRuns(1, partitions, IDS))

    left = stored_rows(tables, partitions)
    for tp, copied in copies.items():
        whole, answers = OffsetMap(merge_runs(copied.runs)), OffsetMap(left[tp])
        for committed in range(copied.start, copied.position.upstream + 50, 59):
            true, answer = copied.true_position(committed), offset_of(answers.translate(committed))
            assert answer <= true, (seed, tp, committed)
            before = copied.reread(committed, offset_of(whole.translate(committed)))
            more = copied.reread(committed, answer) - before
            assert more <= (copied.end - true) // RESOLUTION + 1, (seed, tp, committed)
    by_the_rule = sum(len(thin_runs(merge_runs(runs))) for runs in partitions.values())
    assert sum(map(len, left.values())) <= 1.02 * by_the_rule < total, seed


@by_both_at_length
def test_sparse_runs_are_thinned_as_in_memory(tables: Tables) -> None:
    runs = [OffsetRun(20 * at, 20 * at + 20, 10 * at, 10) for at in range(600)]

    OffsetTable(tables, FLOW, compact_after=600).append(FinishedRuns(1, {ORDERS_0: runs}, IDS))

    left = reader_of(tables).offsets(FLOW).runs(ORDERS_0)
    assert left == thin_runs(runs)
    assert len(left) < 300


def shared_runs(dice: random.Random) -> tuple[list[OffsetRun], list[tuple[int, int]]]:
    """The runs of a partition whose remote partition others write, too, and what they copied."""
    upstream, downstream, runs, copies = 3, 5, [], []
    for _ in range(dice.randrange(300, 1_200)):
        downstream += dice.choice((0, 0, 1, 9))
        missing, width = dice.choice((0, 0, 0, 3)), dice.randrange(1, 4)
        if missing:
            runs.append(OffsetRun(upstream, upstream + missing, downstream, 0))
        upstream += missing
        runs.append(OffsetRun(upstream, upstream + width, downstream, width))
        copies += [(upstream + at, downstream + at) for at in range(width)]
        upstream, downstream = upstream + width, downstream + width
    return runs, copies


@by_both
def test_maps_of_shared_partitions_are_thinned_and_skip_nothing(tables: Tables) -> None:
    seed = random.randrange(1_000_000)  # noqa: S311 - test data
    dice = random.Random(seed)  # noqa: S311 - test data
    shared = {TopicPartition("orders", number): shared_runs(dice) for number in range(8)}
    partitions = {tp: runs for tp, (runs, _) in shared.items()}
    total = sum(map(len, partitions.values()))

    OffsetTable(tables, FLOW, compact_after=total).append(FinishedRuns(1, partitions, IDS))

    left = stored_rows(tables, partitions)
    by_the_rule = sum(len(thin_runs(merge_runs(runs))) for runs in partitions.values())
    assert sum(map(len, left.values())) <= 1.02 * by_the_rule < 0.8 * total, seed
    for tp, (runs, copies) in shared.items():
        answers, log_end = OffsetMap(left[tp]), runs[-1].tgt_until
        for committed in range(runs[0].src_from, runs[-1].src_until + 1, 3):
            unread = min((t for s, t in copies if s >= committed), default=log_end)
            answer = answers.translate(committed)
            assert not isinstance(answer, NoAnswer)
            again = sum(1 for s, t in copies if s < committed and t >= answer.offset)
            assert answer.offset <= unread, (seed, tp, committed)
            assert again <= min(answer.reread, (log_end - unread) // RESOLUTION + 1), (seed, tp)
        for committed in range(runs[0].tgt_from, log_end + 1, 3):
            unread = min((s for s, t in copies if t >= committed), default=runs[-1].src_until)
            answer = answers.translate_back(committed)
            assert not isinstance(answer, NoAnswer)
            assert answer.offset <= unread, (seed, tp, committed)


@by_both
def test_a_flow_compacts_its_own_rows_only_and_goes_on_as_before(tables: Tables) -> None:
    old = {ORDERS_1: Epochs(9, 9)}
    recreated = FinishedRuns(
        5, {ORDERS_1: [OffsetRun(0, 5, 50, 5)]}, {"orders": "id-0"}, epochs=old
    )
    OffsetTable(tables, FLOW).append(recreated)
    for start in (0, 10, 20):
        append(tables, start)
    append(tables, 0, OTHER)
    sparse = {ORDERS_1: [anchor(Position(7, 0)), OffsetRun(7, 30, 0, 11)]}
    OffsetTable(tables, FLOW).append(FinishedRuns(70, sparse, IDS))
    before = reader_of(tables).offsets(FLOW).progress()

    append(tables, 30, compact_after=1)

    assert rows(tables) == [
        ("id-0", 1, 5, 0, 5, 50, 5),
        ("id-1", 0, 31, 0, 40, 0, 40),
        ("id-1", 1, 70, 7, 30, 0, 11),
    ]
    assert rows(tables, OTHER) == [("id-1", 0, 1, 0, 10, 0, 10)]
    after = reader_of(tables).offsets(FLOW).progress()
    assert after == StoredProgress(
        70,
        {**before.anchors, ORDERS_0: Anchor(Position(40, 40), "id-1")},
        {**before.replicated_until, ORDERS_0: 40},
        stamps={ORDERS_0: Stamps(Stamp(40, 30), None)},
    )
    assert (after.rows, after.compacted_rows) == (3, 3)


@by_both
def test_a_map_is_read_in_slices_of_whole_partitions(tables: Tables) -> None:
    dice = random.Random(7)  # noqa: S311 - test data
    sizes = (3, 1_200, 700, 2, 900)
    partitions = {
        TopicPartition("orders", number): shared_runs(dice)[0][:size]
        for number, size in enumerate(sizes)
    }
    OffsetTable(tables, FLOW, compact_after=10_000).append(FinishedRuns(1, partitions, IDS))
    append(tables, 0, OTHER)

    left = tables.rewrite(
        "offset_runs", f"flow = '{FLOW}'", partial(compacted, flow=FLOW, slice_rows=705), "compact"
    )

    expected = {tp: thin_runs(merge_runs(runs)) for tp, runs in partitions.items()}
    found = stored_rows(tables, partitions)
    assert {tp: sorted(runs, key=by_target) for tp, runs in found.items()} == expected
    assert left == sum(map(len, expected.values()))
    assert rows(tables, OTHER) == [("id-1", 0, 1, 0, 10, 0, 10)]


def by_target(run: OffsetRun) -> tuple[int, int]:
    return run.tgt_from, run.count


def test_a_map_is_compacted_when_it_has_doubled(tables: Tables) -> None:
    table = OffsetTable(tables, FLOW, compact_after=2)

    def grow(first: int) -> int:
        """Appends two runs that cannot be joined, because records were skipped between them."""
        for start in (first, first + 1):
            run = OffsetRun(20 * start, 20 * start + 10, 10 * start, 10)
            table.append(FinishedRuns(1, {ORDERS_0: [run]}, IDS))
        return frame(tables, "offset_runs", FLOW).where("first_batch = -2").count()

    assert [grow(first) for first in (0, 2, 4, 6, 8)] == [2, 4, 4, 8, 8]


def test_rows_of_earlier_processes_count_for_the_next_compaction(tables: Tables) -> None:
    for start in (0, 10):
        append(tables, start)  # short jobs, each with few rows

    table = OffsetTable(tables, FLOW, compact_after=3)
    table.resume(reader_of(tables).offsets(FLOW).progress())
    run = OffsetRun(20, 30, 20, 10)
    table.append(FinishedRuns(40, {ORDERS_0: [run]}, IDS))

    assert rows(tables) == [("id-1", 0, 40, 0, 30, 0, 30)]
