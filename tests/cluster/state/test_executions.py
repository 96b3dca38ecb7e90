"""Each start of a flow leaves its end in the table ``executions``, whatever ended it."""

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import FlowError
from replication.figures.lag import LATEST
from replication.model import Committed, TopicPartition
from replication.state.schemas import SCHEMAS
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import kill_tree
from tests.support.stored import stored
from tests.support.topics import fill, now_ms, send_records
from tests.support.waiting import in_time, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

WAIT_SECONDS = 120.0
BACKLOG = 200_000
AFTER, FOREVER = "message.timestamp.after.max.ms", str(2**63 - 1)
END_SECONDS = 45.0
"""The lease is over after 20 s of silence; the rest is the end of Spark."""

RECORDS = [
    ProducedRecord(partition=number % 2, key=b"key%d" % number, value=b"v" * 20, timestamp_ms=ms)
    for number, ms in enumerate([1_000, 5_250, 3_000])
]
BYTES = sum(len(record.key or b"") + len(record.value or b"") for record in RECORDS)


def ends(state: Path) -> list[tuple[str, str, int | None]]:
    """The flow, the ending and the exit code of each start, oldest end first."""
    rows = stored(state, "executions", "topic IS NULL", "ended_at, flow")
    return [(row.flow, row.ending, row.exit_code) for row in rows]


def versions(state: Path) -> dict[str, int]:
    """The version of each table."""
    return {name: DeltaTable(state / name).version() for name in SCHEMAS}


def test_a_drain_of_two_flows_leaves_both_ends_in_one_commit(
    clusters: Clusters, tmp_path: Path
) -> None:
    source, target = clusters
    flow = unique_flow()
    back = f"{flow.target}->{flow.source}"
    topic = f"{flow.source}-orders"
    create_topic(source.bootstrap, topic, 2)
    send_records(source, topic, RECORDS)
    other = f"{flow.target}-users"
    for broker, name in ((target, other), (source, f"{flow.target}.{other}")):
        create_topic(broker.bootstrap, name, 1, {AFTER: FOREVER})
    # microseconds, where Kafka has milliseconds
    send_records(target, other, [replace(RECORDS[0], partition=0, timestamp_ms=now_ms() * 1000)])
    more = {back: {"enabled": True, "topics": [other]}}
    config = write_config(tmp_path, clusters, topic, more, flow)
    state, began = tmp_path / "state", datetime.now(timezone.utc)

    first = spark_submit(config, "--mode", "drain")
    after_first = versions(state)
    second = spark_submit(config, "--mode", "drain")

    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
    both = {(str(flow), "finished", 0), (back, "finished", 0)}
    assert set(ends(state)) == both
    assert len(ends(state)) == 4
    assert after_first["executions"] == 1, "the table was created, and has one commit of rows"
    changed = {name for name, at in versions(state).items() if at != after_first[name]}
    assert changed == {"leases", "executions"}, "an idle drain commits nowhere else"
    copied, idle = stored(state, "executions", f"topic = '{topic}'", "started_at")
    assert (copied.records, copied.bytes, copied.set_aside) == (3, BYTES, 0)
    assert (copied.source_end, copied.source_stable, copied.reached, copied.behind) == (3, 3, 3, 0)
    assert copied.newest_record == datetime.fromtimestamp(5.25, timezone.utc)
    assert began < copied.started_at < copied.ended_at < idle.started_at
    assert (copied.job, copied.mode, copied.epoch, copied.cause) == ("mirror", "drain", 1, None)
    assert (idle.records, idle.bytes, idle.reached, idle.newest_record) == (0, 0, 3, None)
    (micro,) = stored(state, "executions", f"topic = '{other}' AND records > 0", "started_at")
    assert (micro.newest_record, micro.behind) == (LATEST, 0)
    of_flow = stored(state, "executions", f"topic IS NULL AND flow = '{flow}'", "started_at")[0]
    assert (of_flow.records, of_flow.bytes, of_flow.behind) == (3, BYTES, 0)
    assert of_flow.newest_record == copied.newest_record


def test_the_next_owner_writes_the_end_of_a_flow_that_was_killed(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    """It is stopped when it has caught up, and has translated what was committed just before."""
    del spark  # `commit` uses it
    source, _ = clusters
    flow = unique_flow()
    topic = f"{flow.source}-orders"
    create_topic(source.bootstrap, topic, 2)
    send_records(source, topic, RECORDS)
    settings = {
        "replication.mode": "microbatch",
        "state.write.interval.seconds": 1,
        "groups": [f"{flow.source}-group"],
    }
    config = write_config(tmp_path, clusters, topic, settings, flow)
    state = tmp_path / "state"
    mirror = start_mirror(config, tmp_path / "killed.log")
    try:
        wait_until(
            lambda: len(stored(state, "offset_runs", "count > 0", "topic")) > 0, WAIT_SECONDS
        )
        kill_tree(mirror.pid)
        with pytest.raises(FlowError, match="exit code -9"):
            mirror.run_for(10)
    finally:
        mirror.discard()
    (lease,) = stored(state, "leases", f"flow = '{flow}'", "renewed")
    (written,) = stored(state, "offset_runs", "TRUE", "written_at DESC LIMIT 1")

    mirror = start_mirror(config, tmp_path / "next.log")
    try:
        wait_until(lambda: ends(state), WAIT_SECONDS)
        assert ends(state) == [(str(flow), "killed", None)], "while the next owner runs"
        commit(source, f"{flow.source}-group", {TopicPartition(topic, 0): Committed(1)})
        stop = replication("stop", config, "--when-caught-up")
        assert (stop.returncode, stop.stdout) == (0, f"{flow} has caught up, and stopped\n"), stop
        mirror.stop()
    finally:
        mirror.discard()

    assert ends(state) == [(str(flow), "killed", None), (str(flow), "stopped", 0)]
    killed, stopped = stored(state, "executions", "topic IS NULL", "ended_at")
    assert (killed.host, killed.epoch, killed.records) == (lease.host, 1, None)
    assert (killed.started_at, killed.ended_at) == (lease.since, written.written_at)
    assert (stopped.epoch, stopped.mode, stopped.records) == (2, "microbatch", 0)
    (checkpoint,) = stored(state, "checkpoints", order="upstream")
    assert (checkpoint.upstream, checkpoint.exact) == (1, True)


def test_a_start_that_fails_has_an_end_with_its_cause(
    clusters: Clusters, own_broker: Broker, tmp_path: Path
) -> None:
    source, _ = clusters
    flow = unique_flow()
    topic = f"{flow.source}-orders"
    config = write_config(tmp_path, (source, own_broker), topic, flow=flow)
    state = tmp_path / "state"
    without_topic = spark_submit(config, "--mode", "drain")
    own_broker.kill()
    dead = spark_submit(config, "--mode", "drain")

    assert (without_topic.returncode, dead.returncode) == (6, 3)
    assert ends(state) == [(str(flow), "failed", 6), (str(flow), "failed", 3)]
    first, second = stored(state, "executions", "TRUE", "ended_at")
    assert "matches the list topics" in first.cause
    assert (first.records, first.epoch) == (0, 1)
    assert own_broker.bootstrap in second.cause
    assert (second.records, second.epoch, second.behind) == (0, None, None)
    shown = replication("status", config).stdout
    assert "exit code 3" in shown
    assert own_broker.bootstrap in shown


def test_a_drain_whose_target_dies_says_what_it_has_reached(
    clusters: Clusters, own_broker: Broker, tmp_path: Path
) -> None:
    source, _ = clusters
    flow = unique_flow()
    topic = f"{flow.source}-orders"
    fill(source, topic, 1, BACKLOG)
    settings = {"replication.batch.max.records": 1_000, "state.write.interval.seconds": 1}
    config = write_config(tmp_path, (source, own_broker), topic, settings, flow)
    state = tmp_path / "state"
    drain = start_mirror(config, tmp_path / "drain.log", "--mode", "drain")
    try:
        wait_until(lambda: stored(state, "offset_runs", "count > 0", "topic"), WAIT_SECONDS)
        own_broker.kill()
        with in_time(END_SECONDS, "the end of the drain"):
            wait_until(lambda: drain.exit_code is not None, WAIT_SECONDS)
    finally:
        drain.discard()

    of_flow, of_topic = stored(state, "executions", "TRUE", "topic NULLS FIRST")
    assert (of_flow.ending, of_flow.exit_code, of_flow.mode) == ("failed", 3, "drain")
    assert of_flow.exit_code == drain.exit_code
    assert own_broker.bootstrap in of_flow.cause
    assert (of_topic.source_end, of_topic.source_stable) == (BACKLOG, BACKLOG)
    assert 0 < of_topic.reached <= of_topic.records < BACKLOG  # not all was confirmed
    assert of_topic.behind == of_flow.behind == BACKLOG - of_topic.reached
    assert of_flow.records == of_topic.records
    assert of_topic.newest_record is not None
