"""What is recorded of the end of a flow: its rows, and when they are written without Spark."""

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from replication.app.run_history import JobSpec, RunHistory
from replication.config.tree import MirrorConfig
from replication.errors import ClusterError, FlowError, LeaseError, ReplicationError
from replication.figures.lag import LATEST
from replication.flows.run_summary import RunSummary
from replication.flows.supervised import HeadStart
from replication.model import Flow, Job, TopicPartition
from replication.offsets.pending import Copied
from replication.offsets.runs import OffsetRun
from replication.spark.session import LateSession
from replication.state.delta import DeltaReader
from replication.state.executions import (
    EXECUTIONS,
    Execution,
    TopicEnd,
    has_end,
    last_execution,
    rows_of,
)
from replication.state.schemas import SCHEMAS
from replication.state.tables import Tables
from tests.support.settings import parse_settings
from tests.support.stored import stored
from tests.support.waiting import wait_until

FLOW, BACK = Flow("A", "B"), Flow("B", "A")
ORDERS_0, ORDERS_1, USERS_0 = (
    TopicPartition(*tp) for tp in (("orders", 0), ("orders", 1), ("u", 0))
)
START = datetime(2026, 11, 26, 8, tzinfo=timezone.utc)
END = Execution(
    FLOW, "mirror", "drain", "h, process 7", START, START + timedelta(minutes=1), "failed"
)


def mirror(state: Path) -> MirrorConfig:
    """The configuration of two flows."""
    return parse_settings(
        {
            "clusters": "A, B",
            "A.bootstrap.servers": "nowhere:1",
            "B.bootstrap.servers": "nowhere:2",
            "A->B.enabled": "true",
            "B->A.enabled": "true",
            "state.dir": state.as_uri(),
        }
    )


def launch(state: Path, job: Job = "mirror", *, standby: bool = False) -> JobSpec:
    config = mirror(state)
    return JobSpec(config, config.flows, job, standby)


def test_the_row_of_a_flow_has_the_sums_of_its_topics() -> None:
    newest = START - timedelta(hours=1)
    topics = (
        TopicEnd("orders", 5, 100, 0, None, 9, 8, 7, 1, newest),
        TopicEnd("users", 1, 10, 1, "no right", 3, 3, 3, 0, newest - timedelta(hours=1)),
        TopicEnd("audit", 0, 0, 1, "gone"),
    )

    flow, *of_topics = rows_of(replace(END, exit_code=3, cause="x" * 2000, topics=topics))

    assert (flow["records"], flow["bytes"], flow["set_aside"], flow["behind"]) == (6, 110, 2, 1)
    assert (flow["newest_record"], flow["cause"]) == (newest, "x" * 1000)
    assert "topic" not in flow
    assert [(row["topic"], row["cause"], row["reached"]) for row in of_topics] == [
        ("orders", None, 7),
        ("users", "no right", 3),
        ("audit", "gone", None),
    ]
    assert all(row["exit_code"] == 3 and row["ended_at"] == END.ended_at for row in of_topics)


def test_what_is_not_known_is_null() -> None:
    (killed,) = rows_of(replace(END, ending="killed"))
    unreported, _ = rows_of(replace(END, topics=(TopicEnd("orders", 5, None),)))
    (nothing,) = rows_of(replace(END, topics=()))

    names = ("records", "bytes", "set_aside", "behind", "newest_record", "exit_code", "cause")
    assert [killed.get(name) for name in names] == [None] * 7
    assert (unreported["records"], unreported["bytes"], unreported["behind"]) == (5, None, None)
    assert (nothing["records"], nothing["bytes"], nothing["behind"]) == (0, 0, None)


def test_a_tally_adds_up_partitions() -> None:
    summary = RunSummary()
    summary.begin(
        {ORDERS_0: 12, ORDERS_1: 5}, {ORDERS_0: 10, ORDERS_1: 5, USERS_0: 3}, "read_committed"
    )
    summary.positions = {ORDERS_0: 4, ORDERS_1: 7, TopicPartition("other", 0): 1}
    summary.set_aside = {USERS_0: ClusterError("no leader"), "audit": FlowError("too large")}
    summary.metrics.add({ORDERS_0: [OffsetRun(1, 4, 1, 3)]})
    summary.metrics.add_copied([(ORDERS_0, Copied(70, 2_000, -1))])
    summary.metrics.add_copied([(ORDERS_1, Copied(30, 1_500, -1))])

    micro_0 = TopicPartition("micro", 0)
    summary.metrics.add({micro_0: [OffsetRun(0, 1, 0, 1)]})
    summary.metrics.add_copied([(micro_0, Copied(1, 1_795_863_206_489_297, -1))])

    audit, micro, orders, users = summary.topics()

    newest = datetime.fromtimestamp(2, timezone.utc)
    assert orders == TopicEnd("orders", 3, 100, 0, None, 17, 15, 11, 6, newest)
    assert micro.newest_record == LATEST, "one topic's microseconds take nothing from the others"
    assert users == TopicEnd("u", 0, 0, 1, "no leader", None, 3, None, None)
    assert audit == TopicEnd("audit", 0, 0, 1, "too large")
    assert summary.without_end([ORDERS_0, TopicPartition("new", 0)]) == {TopicPartition("new", 0)}


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1))
def test_behind_counts_each_partition_and_is_0_only_if_all_are_reached(
    pairs: list[tuple[int, int]],
) -> None:
    summary = RunSummary()
    partitions = [TopicPartition("t", number) for number in range(len(pairs))]
    summary.begin(
        {tp: end for tp, (end, _) in zip(partitions, pairs, strict=True)}, {}, "read_uncommitted"
    )
    summary.positions = {tp: at for tp, (_, at) in zip(partitions, pairs, strict=True)}

    (topic,) = summary.topics()

    assert (topic.behind == 0) == all(at >= end for end, at in pairs)
    assert topic.reached == sum(at for _, at in pairs)


def test_a_topic_that_was_deleted_is_not_behind_and_one_that_is_set_aside_is() -> None:
    summary = RunSummary()
    summary.begin({ORDERS_0: 5, USERS_0: 3}, {}, "read_uncommitted")
    summary.end({ORDERS_0: 4, USERS_0: 1}, {USERS_0: ClusterError("no leader")}, shown={"audit"})

    assert [(topic.topic, topic.behind) for topic in summary.topics()] == [
        ("orders", None),
        ("u", 2),
    ]


def test_the_ends_of_all_flows_are_one_commit(tmp_path: Path) -> None:
    ends = RunHistory(launch(tmp_path))
    ends.end(FLOW, RunSummary(epoch=4), FlowError("the query failed"), is_stopped=False)
    ends.close(None)
    ends.close(None)

    assert DeltaTable(tmp_path / EXECUTIONS).version() == 0
    rows = stored(tmp_path, EXECUTIONS, order="flow")
    assert [(row.flow, row.ending, row.exit_code, row.cause, row.epoch) for row in rows] == [
        ("A->B", "failed", 6, "the query failed", 4),
        ("B->A", "stopped", 0, None, None),
    ]


@pytest.mark.parametrize(
    ("standby", "epoch", "error", "expected"),
    [
        (False, None, LeaseError("another has it"), "kept-out"),
        (False, 3, LeaseError("another took it"), "lease-lost"),
        (True, None, None, "kept-out"),
        (True, 3, None, "stopped"),
        (False, None, ClusterError("silent"), "failed"),
        (False, None, ValueError("a defect"), "failed"),
    ],
)
def test_how_a_start_ended(
    tmp_path: Path,
    *,
    standby: bool,
    epoch: int | None,
    error: Exception | None,
    expected: str,
) -> None:
    ends = RunHistory(launch(tmp_path, standby=standby))

    ends.end(FLOW, RunSummary(epoch=epoch), error, is_stopped=True)
    ends.end(BACK, RunSummary(epoch=1), None, is_stopped=False)
    ends.close(None)

    found = {row.flow: row.ending for row in stored(tmp_path, EXECUTIONS, order="flow")}
    assert found == {"A->B": expected, "B->A": "finished"}


class Broken(RunSummary):
    """A tally whose figures cannot be told."""

    def topics(self) -> tuple[TopicEnd, ...]:
        raise ArithmeticError("out of range")


@pytest.mark.parametrize("error", [None, ClusterError("silent")])
def test_an_end_is_known_whose_figures_are_not(tmp_path: Path, error: Exception | None) -> None:
    ends = RunHistory(launch(tmp_path))

    with pytest.raises(ArithmeticError):
        ends.end(FLOW, Broken(epoch=3), error, is_stopped=False)
    ends.end(BACK, RunSummary(epoch=1), None, is_stopped=False)
    ends.close(None)

    row, back = stored(tmp_path, EXECUTIONS, order="flow")
    code = 1 if error is None else ClusterError.exit_code
    assert (row.ending, row.exit_code, row.cause) == ("failed", code, str(error or "out of range"))
    assert (row.epoch, row.records, back.ending) == (3, None, "finished")


def test_an_internal_error_while_ends_are_written_is_no_clean_end(tmp_path: Path) -> None:
    ends = RunHistory(launch(tmp_path))
    ends.end(FLOW, RunSummary(epoch=2**70), None, is_stopped=False)  # no column holds that
    ends.close(None)

    assert isinstance(ends.broken, OverflowError)


def test_a_job_without_records_knows_no_numbers(tmp_path: Path) -> None:
    ends = RunHistory(launch(tmp_path, "checkpoints"))
    ends.close(None)

    assert {row.records for row in stored(tmp_path, EXECUTIONS, order="flow")} == {None}


class WatchedTables(Tables):
    """Tables without Spark that tell when the first one is to be created."""

    def __init__(self, state: Path) -> None:
        super().__init__(LateSession(no_spark), state.as_uri())
        self.has_begun = Event()

    def create(self, table: str) -> None:
        self.has_begun.set()
        super().create(table)

    @property
    def are_all_there(self) -> bool:
        """Whether each table exists."""
        return all(self.exists(table) for table in SCHEMAS)


def no_spark() -> SparkSession:
    """Nothing here needs one."""
    raise AssertionError("Spark is started")


def test_tables_that_nobody_has_needed_are_created_behind_the_first_record(
    tmp_path: Path,
) -> None:
    tables, head_start = WatchedTables(tmp_path), HeadStart([FLOW])

    with RunHistory(launch(tmp_path)).written_to(tables, head_start):
        is_early = tables.has_begun.wait(0.3)
        head_start.end(FLOW)
        wait_until(lambda: tables.are_all_there, 60)

    assert not is_early


def test_they_are_created_at_the_end_of_a_job_that_has_copied_nothing(tmp_path: Path) -> None:
    tables = WatchedTables(tmp_path)

    with RunHistory(launch(tmp_path)).written_to(tables, HeadStart([FLOW], math.inf)):
        pass

    assert tables.are_all_there


def test_trouble_with_the_state_directory_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file")
    ends = RunHistory(launch(tmp_path / "state"))

    ends.close(ReplicationError("the start failed"))

    assert "executions_not_written" in caplog.text
    (tmp_path / "state").unlink()
    ends.close(None)
    assert len(stored(tmp_path / "state", EXECUTIONS, order="flow")) == 2, "written later"


def test_a_state_directory_that_disappears_is_not_made_anew_for_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    ends, tables = RunHistory(launch(state)), WatchedTables(state)

    with ends.written_to(tables, HeadStart([FLOW])):
        tables.create(EXECUTIONS)
        state.rename(tmp_path / "away")
    ends.close(ReplicationError("state.dir is gone"))

    assert not state.exists()
    assert "no longer the folder in which this process began" in caplog.text
    (tmp_path / "away").rename(state)
    ends.close(None)
    assert len(stored(state, EXECUTIONS, order="flow")) == 2, "written when it is back"


def test_the_end_of_a_process_that_wrote_it_itself_is_known(tmp_path: Path) -> None:
    ends = RunHistory(launch(tmp_path))
    ends.close(ClusterError("silent"))
    row, _ = stored(tmp_path, EXECUTIONS, order="flow")
    state = DeltaReader(tmp_path.as_uri())

    assert has_end(state, FLOW, row.host, row.ended_at)
    assert not has_end(state, FLOW, "another, process 7", row.ended_at)
    assert not has_end(state, FLOW, row.host, row.ended_at + timedelta(seconds=1))
    last = last_execution(state, FLOW)
    assert last is not None
    assert last["cause"] == "silent"
