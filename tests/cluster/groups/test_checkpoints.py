"""A checkpoint says where a group goes on in the copy, and never skips a record."""

import threading
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.app.background import background_checkpoints
from replication.control.overrides import new_change
from replication.demo.workload import (
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.flows.checkpoints import Checkpoints
from replication.flows.context import FlowContext
from replication.kafka.reader import read_records
from replication.mm2.wire import Checkpoint
from replication.model import Committed, TopicPartition
from replication.offsets.map import quality
from replication.spark.mode import BOOKKEEPING_SLOTS
from replication.state.tables import Tables
from replication.upkeep.groups import checkpoints_topic, read_checkpoints
from tests.support.checkpoints import config_of, emitted, replicated
from tests.support.flows import RunningFlow, flow_context, unique_flow
from tests.support.groups import commit
from tests.support.local import SPARK_SLOTS, Clusters, Until
from tests.support.stored import stored
from tests.support.topics import delete_topic, fill, now_ms, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def hundred_copied(
    spark: SparkSession, clusters: Clusters, folder: Path, topic: str
) -> FlowContext:
    """A flow that has copied 100 records of a topic with one partition."""
    fill(clusters[0], topic, 1, 100)
    return replicated(spark, folder, config_of(clusters, topic))


def test_a_checkpoint_is_exact_at_every_position_of_a_dense_topic(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, config = f"g-{topic_name}", config_of(clusters, topic_name)
    fill(clusters[0], topic_name, 2, 1000)
    context = replicated(spark, tmp_path, config)
    zero, one = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    commit(clusters[0], f"{group}-slow", {zero: Committed(3, "a note"), one: Committed(0)})
    commit(clusters[0], f"{group}-done", {zero: Committed(500), one: Committed(499)})

    emit_and_record(context)

    assert emitted(context) == {
        (f"{group}-slow", 0): (3, 3, "a note"),
        (f"{group}-slow", 1): (0, 0, ""),
        (f"{group}-done", 0): (500, 500, ""),
        (f"{group}-done", 1): (499, 499, ""),
    }
    rows = stored(context.tables, "checkpoints")
    assert {(row.group, row.topic, row.partition, row.remote_topic) for row in rows} == {
        (f"{group}-{name}", topic_name, partition, f"A.{topic_name}")
        for name in ("slow", "done")
        for partition in (0, 1)
    }
    assert all(row.exact and row.reread == 0 and row.flow == "A->B" for row in rows)


def test_a_checkpoint_is_emitted_only_when_its_group_moves(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    context = hundred_copied(spark, clusters, tmp_path, topic_name)
    checkpoints = Checkpoints(context)

    history = []
    for offset in (40, 40, 60, 20):
        commit(clusters[0], group, {tp: Committed(offset)})
        checkpoints.round(at_once=True)
        history.append(len(all_of(context)))
    Checkpoints(context).round()  # another process reads what was emitted

    assert emitted(context) == {(group, 0): (20, 20, "")}
    ours = [checkpoint.upstream for checkpoint in all_of(context) if checkpoint.group == group]
    assert ours == [40, 60, 20]
    assert len(stored(context.tables, "checkpoints")) == 3
    assert history[0] == history[1]


def test_groups_of_what_is_paused_have_checkpoints_as_far_as_it_was_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """They go on on the source, in the end beyond the last copy: to the end of the copies then."""
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    context = hundred_copied(spark, clusters, tmp_path, topic_name)
    changes = context.requests.changes_of(context.config.flow)
    changes.write(new_change(context.config.flow, "pause", [topic_name]))
    assert changes.read().paused.covers(tp)
    send(clusters[0], topic_name, 1, 20)
    checkpoints = Checkpoints(context)

    for offset in (40, 60, 120):
        commit(clusters[0], group, {tp: Committed(offset)})
        checkpoints.round(at_once=True)

    ours = [each for each in all_of(context) if each.group == group]
    found = [(each.upstream, each.downstream) for each in ours]
    assert found == [(40, 40), (60, 60), (120, 100)]


@pytest.mark.parametrize("kind", ["compacted", "transactional"])
def test_in_a_sparse_topic_no_record_is_skipped_and_the_reread_bound_holds(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, kind: str
) -> None:
    source = clusters[0]
    if kind == "compacted":
        create_compacted_topic(source.bootstrap, topic_name, 1, now_ms=now_ms())
    else:
        create_topic(source.bootstrap, topic_name, 1)
        records = islice(plain_records(1, size_bytes=20, now_ms=now_ms()), 300)
        send_transactions(source.bootstrap, topic_name, records, records_each=10, abort_every=4)
    config = config_of(clusters, topic_name)
    context = replicated(spark, tmp_path, config)
    tp = TopicPartition(topic_name, 0)
    copied = read_records(config.source.consumer, tp, 0, 1 << 60, "read_committed")
    offsets = [record.offset for record in copied]
    end = context.source.log_ends([tp])[tp]
    group = f"g-{topic_name}"
    positions = [0, 1, end // 3, end // 2, end - 1, end]
    for index, position in enumerate(positions):
        commit(source, f"{group}-{index}", {tp: Committed(position)})

    emit_and_record(context)

    bounds = {row.group: row.reread for row in stored(context.tables, "checkpoints")}
    for (name, _), (upstream, downstream, _) in emitted(context).items():
        true = sum(offset < upstream for offset in offsets)
        assert downstream <= true
        assert true - downstream <= bounds[name]
    assert len(bounds) == len(positions)
    assert emitted(context)[f"{group}-5", 0][1] == len(offsets)
    assert len(offsets) < end


def test_a_group_ahead_of_a_finished_copy_gets_its_end_and_then_its_own_position(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    context = hundred_copied(spark, clusters, tmp_path, topic_name)
    send(clusters[0], topic_name, 1, 50)
    commit(clusters[0], group, {tp: Committed(150)})
    checkpoints = Checkpoints(context)

    checkpoints.round()
    waiting = emitted(context)
    checkpoints.round(at_once=True)  # as after a drain
    ahead = emitted(context)
    replicated(spark, tmp_path, context.config)
    checkpoints.round(at_once=True)

    assert (waiting, ahead) == ({}, {(group, 0): (150, 100, "")})
    assert emitted(context) == {(group, 0): (150, 150, "")}


def test_excluded_groups_and_topics_get_no_checkpoint(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source = clusters[0]
    config = config_of(clusters, topic_name, {"groups.exclude": ".*-private"})
    fill(source, topic_name, 1, 10)
    fill(source, f"{topic_name}-other", 1, 10)
    context = replicated(spark, tmp_path, config)
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    other = TopicPartition(f"{topic_name}-other", 0)
    commit(source, group, {tp: Committed(5), other: Committed(5)})
    commit(source, f"{group}-private", {tp: Committed(5)})

    Checkpoints(context).round()

    assert emitted(context) == {(group, 0): (5, 5, "")}


def test_groups_of_a_recreated_topic_are_not_translated(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config, tp = config_of(clusters, topic_name), TopicPartition(topic_name, 0)
    fill(clusters[0], topic_name, 1, 10)
    context = replicated(spark, tmp_path, config)
    delete_topic(clusters[0], topic_name)
    fill(clusters[0], topic_name, 1, 10)
    commit(clusters[0], f"g-{topic_name}", {tp: Committed(5)})

    Checkpoints(context).round()

    assert emitted(context) == {}
    (position,) = context.metrics.look().round.positions
    assert quality(position.answer).startswith("its topic was deleted or created again")


def test_a_deleted_group_is_reported_once(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, config = f"g-{topic_name}", config_of(clusters, topic_name)
    fill(clusters[0], topic_name, 1, 10)
    context = replicated(spark, tmp_path, config)
    commit(clusters[0], group, {TopicPartition(topic_name, 0): Committed(5)})
    Checkpoints(context).round()
    admin = AdminClient({"bootstrap.servers": clusters[0].bootstrap})
    admin.delete_consumer_groups([group])[group].result(30)

    for _ in range(2):  # in two later processes
        Checkpoints(context).round()

    (row,) = stored(context.tables, "events")
    assert (row.kind, row.group) == ("group-gone", group)
    assert f"group {group} no longer exists on A" in row.text


def test_the_query_emits_at_startup_and_again_while_records_are_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    settings = {"emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
    group, config = f"g-{topic_name}", config_of(clusters, topic_name, settings)
    tp = TopicPartition(topic_name, 0)
    # the query for records takes every slot except those reserved for bookkeeping
    partitions = SPARK_SLOTS - BOOKKEEPING_SLOTS
    fill(clusters[0], topic_name, partitions, 100 * partitions)
    commit(clusters[0], group, {tp: Committed(40)})
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    with background_checkpoints(flow.context, "mirror", threading.Event()):
        until(lambda: (group, 0) in emitted(flow.context), 60)
        commit(clusters[0], group, {tp: Committed(70)})
        commit(clusters[0], f"{group}-new", {tp: Committed(80)})
        until(
            lambda: (
                emitted(flow.context)
                == {(group, 0): (70, 70, ""), (f"{group}-new", 0): (80, 80, "")}
            ),
            60,
        )
    flow.stop()


def test_records_that_are_not_checkpoints_are_skipped(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config = config_of(clusters, topic_name, flow=unique_flow())
    context = flow_context(spark, Tables(spark, tmp_path.as_uri()), config)
    topic = checkpoints_topic(context.target, config)
    before = read_checkpoints(topic)
    good = Checkpoint("g", TopicPartition("t", 0), 5, 4, "note")
    topic.create()
    topic.write(
        [
            (good.key(), good.value()),
            (good.key(), good.value()[:7]),  # truncated
            (good.key(), b"\x00\x01" + good.value()[2:]),  # a later version
            (b"", b"no checkpoint"),
        ]
    )

    assert before == {}  # the topic did not exist
    assert read_checkpoints(topic) == {("g", TopicPartition("t", 0)): good}


def emit_and_record(context: FlowContext) -> None:
    """One round, as of a running flow, and its history in the table."""
    checkpoints = Checkpoints(context)
    checkpoints.round()
    checkpoints.finish()


def all_of(context: FlowContext) -> list[Checkpoint]:
    """Every checkpoint ever emitted on this cluster, oldest first."""
    topic = checkpoints_topic(context.target, context.config)
    return [Checkpoint.decode(record.key, record.value) for record in topic.records()]
