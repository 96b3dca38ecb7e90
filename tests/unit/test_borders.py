"""Where groups are in sparse runs: the table of the offset map has a border there."""

from pathlib import Path

import pytest

from replication.model import Flow, TopicPartition
from replication.offsets.map import Bounded, Exact, LiveMap, OffsetMap
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.session import LateSession
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables, reader_of

FLOW, TP = Flow("A", "B"), TopicPartition("t", 0)
SEVENTHS = [
    run
    for number in range(30)  # one record of seven is copied
    for run in (
        OffsetRun(7 * number, 7 * number + 1, number, 1),
        OffsetRun(7 * number + 1, 7 * number + 7, number + 1, 0),
    )
]
FIRST, SECOND = OffsetRun(0, 105, 0, 15), OffsetRun(105, 210, 15, 15)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    def never() -> None:
        raise AssertionError("Spark is started")

    return Tables(LateSession(never), tmp_path.as_uri())  # type: ignore[arg-type]


def stored(tables: Tables) -> OffsetMap:
    return OffsetMap(reader_of(tables).offsets(FLOW).runs(TP))


def written(tables: Tables, *runs: OffsetRun, topic_id: str = "id") -> OffsetTable:
    table = OffsetTable(tables, FLOW)
    table.append(FinishedRuns(3, {TP: runs}, {TP.topic: topic_id}, (5, 6)))
    return table


def live(*committed: int) -> LiveMap:
    in_memory = LiveMap()
    in_memory.attach()
    in_memory.add({TP: SEVENTHS}, {TP.topic: "id"})
    in_memory.want_borders({TP: committed})
    return in_memory


def test_an_answer_of_the_table_is_that_of_the_map_in_memory_and_the_newest_row_stays(
    tables: Tables,
) -> None:
    table, committed = written(tables, FIRST, SECOND), (10, 50, 52, 99, 130, 209)
    in_memory = live(*committed)
    known, before = in_memory.maps([TP])[TP].offsets, reader_of(tables).offsets(FLOW).progress()
    assert isinstance(stored(tables).translate(50), Bounded)

    table.want(in_memory.take_borders())
    table.append_borders()

    assert [stored(tables).translate(at) for at in committed] == [
        Exact(known.translate(at).offset)  # type: ignore[union-attr]
        for at in committed
    ]
    after = reader_of(tables).offsets(FLOW).progress()
    assert (after.anchors, after.replicated_until) == (before.anchors, before.replicated_until)
    rows = reader_of(tables).rows("offset_runs", FLOW)
    assert {(row["generation"], row["first_batch"], row["last_batch"]) for row in rows} == {
        (3, 5, 6)
    }
    assert len(rows) == 2 + len(committed)
    table.want(live(*committed).take_borders())
    table.append_borders()
    assert in_memory.take_borders() == {}
    assert len(reader_of(tables).rows("offset_runs", FLOW)) == len(rows), "they are there already"


def test_a_border_waits_for_its_run_and_is_only_for_the_same_records(tables: Tables) -> None:
    table = written(tables, FIRST)
    table.want(live(130).take_borders())
    table.append_borders()
    assert len(reader_of(tables).rows("offset_runs", FLOW)) == 1

    table.append(FinishedRuns(3, {TP: [SECOND]}, {TP.topic: "id"}))
    table.append_borders()
    assert stored(tables).translate(130) == Exact(19)

    table.want(live(50).take_borders())
    table.delete([TP], before_generation=4)  # the target has lost these records
    table.append(FinishedRuns(4, {TP: [FIRST]}, {TP.topic: "id"}))
    table.append_borders()
    assert isinstance(stored(tables).translate(50), Bounded)
    again = FinishedRuns(5, {TP: [FIRST]}, {TP.topic: "of a topic that was created again"})
    table.append(again)
    table.delete([TP], before_generation=5)
    table.append(again)
    table.want(live(50).take_borders())
    table.append_borders()
    assert isinstance(stored(tables).translate(50), Bounded)
