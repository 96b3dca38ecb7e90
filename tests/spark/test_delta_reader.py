"""The tables read and appended to with Spark and without: both give the same answers."""

import random
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.flows.checkpoints import live_maps
from replication.model import Flow, Position, TopicPartition
from replication.offsets.map import Ahead, Bounded, Exact, OffsetMap, Translation
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor
from replication.state.claim import Claim, LeaseName
from replication.state.delta import DeltaReader, LocalTable
from replication.state.lease import hold_lease
from replication.state.offset_table import OffsetTable
from replication.state.schemas import SCHEMAS
from replication.state.storage import OUT_OF_REACH, storage_for
from replication.state.table_reader import StateReader, StoredProgress
from replication.state.tables import SparkReader, Tables, reader_of
from tests.support.flows import flow_context
from tests.support.frames import frame
from tests.support.settings import ONE_FLOW, parse_settings
from tests.support.stored import spark_tables

pytestmark = pytest.mark.spark

FLOW, OTHER, ABSENT = Flow("A", "B"), Flow("B", "A"), Flow("it's", "C")
ORDERS_0, ORDERS_1, LOG_0 = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("log", 0),
)
NONE = TopicPartition("none", 0)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Maps of two flows: sparse runs, gaps, rewinds, a recreated topic, a compaction, events."""
    folder = tmp_path / "with a space"
    tables = Tables(spark, folder.as_uri())
    table = OffsetTable(tables, FLOW)
    table.append(FinishedRuns(1, {LOG_0: [OffsetRun(0, 50, 0, 50)]}, {"log": "id-1"}))
    table.append(FinishedRuns(2, {LOG_0: [OffsetRun(0, 5, 50, 5)]}, {"log": "id-2"}))
    position = Position(7, 0)
    for generation, rewind in enumerate((0, 0, 3, 0, 0, 12), start=3):
        start = Position(position.upstream - rewind, position.downstream)
        run = OffsetRun(start.upstream + 2, start.upstream + 12, start.downstream, 6)
        runs = {ORDERS_0: [anchor(start), run], ORDERS_1: [OffsetRun(0, 9, 0, 9)]}
        table.append(FinishedRuns(generation, runs, {"orders": "id-3"}))
        position = Position(run.src_until, run.tgt_until)
    OffsetTable(tables, OTHER).append(
        FinishedRuns(9, {ORDERS_0: [OffsetRun(0, 99, 0, 99)]}, {"orders": "x"})
    )
    tables.record_event(FLOW, "group-gone", 'it\'s "gone"', reaction="keep", group="g", partition=3)
    return tables


def by_spark(tables: Tables) -> StateReader:
    """A reader that asks Spark, whichever library has written the tables."""
    return SparkReader(spark_tables(tables))


def answers(reader: StateReader) -> object:
    """What a reader says of the flows: translations, runs, progress, events."""
    offsets = reader.offsets(FLOW)
    translations = [
        (tp, found.topic_id, [found.offsets.translate(offset) for offset in range(least, 70)])
        for least in (0, 19)
        for tp, found in sorted(offsets.maps({ORDERS_0: least, LOG_0: least, NONE: 0}).items())
    ]
    runs = [offsets.runs(tp) for tp in (ORDERS_0, LOG_0, NONE)]
    progress = [reader.offsets(flow).progress() for flow in (FLOW, OTHER, ABSENT)]
    return translations, runs, progress, reader.rows("events", FLOW), reader.rows("topics", FLOW)


def test_both_readers_give_the_same_answers(tables: Tables) -> None:
    without = DeltaReader(tables.root)
    before = answers(without)

    assert before == answers(by_spark(tables))

    compacting = OffsetTable(tables, FLOW, compact_after=1)
    compacting.append(FinishedRuns(8, {ORDERS_1: [OffsetRun(0, 9, 0, 9)]}, {"orders": "id-3"}))

    assert frame(tables, "offset_runs", FLOW).count() < 16
    assert answers(without) == before


def test_both_readers_say_where_nothing_was_copied_since_a_position_was_given(
    tables: Tables,
) -> None:
    rewound = {LOG_0: [anchor(Position(2, 55))]}
    OffsetTable(tables, FLOW).append(FinishedRuns(9, rewound, {"log": "id-2"}))

    for reader in (by_spark(tables), DeltaReader(tables.root)):
        assert reader.offsets(FLOW).progress().placed == {LOG_0}


def test_both_readers_count_the_rows_of_a_map(tables: Tables) -> None:
    compacting = OffsetTable(tables, FLOW, compact_after=1)
    compacting.append(FinishedRuns(8, {ORDERS_1: [OffsetRun(0, 9, 0, 9)]}, {"orders": "id-3"}))
    OffsetTable(tables, FLOW).append(
        FinishedRuns(9, {ORDERS_1: [OffsetRun(20, 29, 9, 9)]}, {"orders": "id-3"})
    )

    of_spark, without = (
        reader.offsets(FLOW).progress() for reader in (by_spark(tables), DeltaReader(tables.root))
    )

    assert of_spark.rows == without.rows == of_spark.compacted_rows + 1
    assert of_spark.compacted_rows == without.compacted_rows > 0


@pytest.mark.parametrize("keys", [["kind"], ["kind", "group"], ["flow"]], ids="-".join)
def test_both_readers_find_the_newest_rows(tables: Tables, keys: list[str]) -> None:
    for group in ("one", "two", "one"):
        tables.record_event(FLOW, "group-gone", group, reaction="keep", group=group)

    found = [
        sorted(reader.newest("events", FLOW, keys, ["at"]), key=str)
        for reader in (by_spark(tables), DeltaReader(tables.root))
    ]

    assert found[0] == found[1]
    newest = {tuple(row[key] for key in keys): row["at"] for row in found[0]}
    rows = sorted(DeltaReader(tables.root).rows("events", FLOW), key=itemgetter("at"))
    assert newest == {tuple(row[key] for key in keys): row["at"] for row in rows}


def test_tables_and_locks_are_in_one_folder(tables: Tables, tmp_path: Path) -> None:
    with hold_lease(tables, Claim(LeaseName(FLOW), tables.root, None)):
        (folder,) = tmp_path.iterdir()
        assert folder.name == "with a space"
        assert {file.name for file in folder.iterdir()} == {
            "_locks", "events", "leases", "offset_runs",
        }  # fmt: skip


def test_maps_of_random_runs_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)  # noqa: S311 - test data
    chance = random.Random(seed)  # noqa: S311 - test data
    tables = Tables(spark, tmp_path.as_uri())
    source = target = 0
    runs = []
    for _ in range(200):
        source += chance.randrange(3)
        count = chance.randrange(1, 4)
        until = source + count + chance.randrange(3)
        runs.append(OffsetRun(source, until, target, count))
        source, target = until, target + count
    OffsetTable(tables, FLOW).append(FinishedRuns(1, {ORDERS_0: runs}, {"orders": "id"}))
    least = {ORDERS_0: chance.randrange(source)}

    found = [
        reader.offsets(FLOW).maps(least)[ORDERS_0].offsets
        for reader in (by_spark(tables), DeltaReader(tables.root))
    ]

    assert [found[0].translate(offset) for offset in range(least[ORDERS_0], source + 5)] == [
        found[1].translate(offset) for offset in range(least[ORDERS_0], source + 5)
    ], seed


@pytest.mark.parametrize("kind", [by_spark, lambda tables: DeltaReader(tables.root)])
def test_a_range_without_runs_is_known_wherever_reading_begins(
    tables: Tables, kind: Callable[[Tables], StateReader]
) -> None:
    runs = [anchor(Position(0, 0)), OffsetRun(12, 14, 30, 2), OffsetRun(5, 8, 32, 3)]
    OffsetTable(tables, OTHER).append(FinishedRuns(10, {ORDERS_1: runs}, {"orders": "x"}))

    maps = kind(tables).offsets(OTHER).maps({ORDERS_1: 9})

    # the record may be the first one of the target, and the repetition has not reached it
    assert maps[ORDERS_1].offsets.translate(9) == OffsetMap(runs).translate(9) == Bounded(0, 13)


def test_a_job_that_runs_checkpoints_only_reads_the_newest_map_without_a_spark_job(
    spark: SparkSession, tables: Tables
) -> None:
    context = flow_context(spark, tables, parse_settings(ONE_FLOW).flows[0])
    maps_of = live_maps(context)

    def translated(offset: int) -> Translation:
        spark.sparkContext.setJobGroup("reads", "")
        found = maps_of({ORDERS_1: offset, NONE: 0})
        spark.sparkContext.setJobGroup("the rest", "")
        return found[ORDERS_1].offsets.translate(offset)

    before = translated(30)
    more = {ORDERS_1: [OffsetRun(9, 40, 9, 31)]}  # written by the job that copies records
    table = OffsetTable(tables, FLOW)
    table.append(FinishedRuns(20, more, {"orders": "id-3"}))
    assert by_spark(tables).offsets(FLOW).runs(ORDERS_1)

    assert (before, translated(30)) == (Ahead(9, 21), Exact(30))
    jobs = spark.sparkContext.statusTracker()
    assert jobs.getJobIdsForGroup("the rest")
    assert not jobs.getJobIdsForGroup("reads")


def test_every_folder_in_reach_can_be_appended_to_and_read(tmp_path: Path) -> None:
    characters = [
        character
        for character in map(chr, range(32, 127))
        if not character.isalnum() and character != "/"
    ]
    folders = [tmp_path / f"state{character}" for character in (*characters, "\u00e4")]
    in_reach = [
        folder
        for folder in folders
        if storage_for(StateAccess(folder.as_uri())).engine == "delta-rs"
    ]

    for folder in in_reach:
        for text in ("first", "second"):
            LocalTable(folder / "events").append(
                [{"flow": str(FLOW), "text": text}], SCHEMAS["events"]
            )

    assert len(in_reach) == len(folders) - len(OUT_OF_REACH)
    for folder in in_reach:
        assert len(DeltaReader(folder.as_uri()).rows("events", FLOW)) == 2, folder


@pytest.mark.parametrize("name", ["my%20state", "state[1]"])
def test_a_folder_out_of_reach_is_appended_to_and_read_by_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    tables = Tables(spark, (tmp_path / name).as_uri())

    tables.append("events", [{"flow": str(FLOW), "text": "first"}])

    assert [row["text"] for row in reader_of(tables).rows("events", FLOW)] == ["first"]
    assert [folder.name for folder in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("state_dir", "expected"),
    [
        pytest.param("file:///state", DeltaReader, id="local"),
        pytest.param("file:///my%2520state", SparkReader, id="out of delta-rs' reach"),
        pytest.param("s3a://bucket/state", DeltaReader, id="remote"),
        pytest.param("abfss://c@a.dfs.core.windows.net/state", SparkReader, id="not tried"),
    ],
)
def test_a_job_reads_through_spark_only_what_delta_rs_cannot_reach(
    spark: SparkSession, state_dir: str, expected: type
) -> None:
    assert isinstance(reader_of(Tables(spark, state_dir)), expected)


def test_a_state_directory_without_tables_is_empty(tmp_path: Path) -> None:
    reader = DeltaReader(tmp_path.as_uri())

    assert reader.rows("events", FLOW) == []
    assert reader.offsets(FLOW).progress() == StoredProgress(0, {}, {})


def test_a_table_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = tmp_path / "events" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("not json")

    with pytest.raises(StateError, match=rf"cannot read table events at {tmp_path}/events: "):
        DeltaReader(tmp_path.as_uri()).rows("events", FLOW)
