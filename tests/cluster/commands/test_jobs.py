"""Every job as a user starts it, through spark-submit.sh: all parts in one, and each part alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.kafka.cluster import Cluster
from replication.mm2.wire import Heartbeat
from replication.model import Committed, Flow, TopicPartition
from replication.state.tables import Tables
from tests.support.commands import Completed, replication, spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.frames import frame
from tests.support.groups import commit, committed
from tests.support.internal_topics import heartbeats
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import fill
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(1200)]

RECORDS = 100
BEFORE, AFTER = Committed(42), Committed(77)
RETENTION = "7000000"
WAIT_SECONDS = 90.0

Offsets = Mapping[TopicPartition, Committed]


@dataclass(frozen=True, slots=True)
class Course:
    """What three jobs did, one after the other, since each start takes long.

    A drain, with a group at offset 42. Then the group commits 77, and the checkpoints job runs
    until it has moved the group, and is stopped. Last, the heartbeats job and, after a change of
    the source topic's retention, the metadata job, both in drain mode.
    """

    flow: Flow
    remote: TopicPartition
    copied: int
    state: Path
    drain: Completed
    moved_by_drain: Offsets
    beats_of_drain: list[Heartbeat]
    moved_by_checkpoints: Offsets
    stop: Completed
    heartbeats: Completed
    beats: list[Heartbeat]
    metadata: Completed
    retention: str | None


@pytest.fixture(scope="module")
def course(
    spark: SparkSession, clusters: Clusters, tmp_path_factory: pytest.TempPathFactory
) -> Course:
    del spark  # `commit` and `committed` use it
    source, target = clusters
    flow, folder = unique_flow(), tmp_path_factory.mktemp("jobs")
    topic, group = f"{flow.source}-orders", f"{flow.source}-group"
    tp, remote = TopicPartition(topic, 0), TopicPartition(f"{flow.source}.{topic}", 0)
    fill(source, topic, 1, RECORDS)
    more = {"groups": [f"{flow.source}-.*"], "sync.group.offsets.enabled": True}
    config = write_config(folder, clusters, topic, more, flow)

    commit(source, group, {tp: BEFORE})
    drain = spark_submit(config, "--mode", "drain")
    moved_by_drain, beats_of_drain = committed(target, group), heartbeats(target, flow)

    commit(source, group, {tp: AFTER})
    checkpoints = start_mirror(config, folder / "log", "--job", "checkpoints")
    try:
        wait_until(lambda: committed(target, group) != moved_by_drain, WAIT_SECONDS)
        stop = replication("stop", config, "--job", "checkpoints")
    finally:
        checkpoints.discard()
    checkpoints.stop()  # raises if it had not ended with exit code 0

    return Course(
        flow=flow,
        remote=remote,
        copied=log_ends(target.bootstrap, [remote.topic])[remote.topic],
        state=folder / "state",
        drain=drain,
        moved_by_drain=moved_by_drain,
        beats_of_drain=beats_of_drain,
        moved_by_checkpoints=committed(target, group),
        stop=stop,
        heartbeats=spark_submit(config, "--mode", "drain", "--job", "heartbeats"),
        beats=heartbeats(target, flow),
        metadata=sync_retention(source, topic, config),
        retention=retention(target, remote.topic),
    )


def sync_retention(source: Broker, topic: str, config: Path) -> Completed:
    """Changes the retention of *topic*, then runs the metadata job."""
    with Cluster("A", {"bootstrap.servers": source.bootstrap}) as cluster:
        cluster.alter_topic_config({topic: {"retention.ms": RETENTION}})
    return spark_submit(config, "--mode", "drain", "--job", "metadata")


def retention(broker: Broker, topic: str) -> str | None:
    with Cluster("B", {"bootstrap.servers": broker.bootstrap}) as cluster:
        return cluster.topic_config([topic])[topic]["retention.ms"].value


def test_the_metadata_job_alone_carries_a_changed_setting(course: Course) -> None:
    assert course.metadata.returncode == 0, course.metadata.stdout
    assert course.retention == RETENTION


def test_a_drain_copies_the_records_and_ends(course: Course) -> None:
    assert course.drain.returncode == 0, course.drain.stdout
    assert course.copied == RECORDS


def test_a_drain_moves_the_groups(course: Course) -> None:
    assert course.moved_by_drain == {course.remote: BEFORE}


def test_a_drain_emits_one_heartbeat(course: Course) -> None:
    assert len(course.beats_of_drain) == 1


def test_the_checkpoints_job_alone_moves_a_group_that_has_read_on(course: Course) -> None:
    assert course.moved_by_checkpoints == {course.remote: AFTER}


def test_the_checkpoints_table_has_each_position_of_the_group(
    course: Course, spark: SparkSession
) -> None:
    history = frame(Tables(spark, course.state.as_uri()), "checkpoints").collect()

    assert {(row.upstream, row.downstream, row.exact) for row in history} == {
        (42, 42, True),
        (77, 77, True),
    }


def test_the_checkpoints_job_alone_is_stopped_by_the_command(course: Course) -> None:
    assert (course.stop.returncode, course.stop.stdout) == (
        0,
        f"{course.flow} stopped\n",
    ), course.stop.stderr


def test_the_heartbeats_job_alone_emits_one_heartbeat_and_ends(course: Course) -> None:
    assert course.heartbeats.returncode == 0, course.heartbeats.stdout
    assert course.beats[:-1] == course.beats_of_drain
    assert len(course.beats) == 2
