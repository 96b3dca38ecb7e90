"""The groups of the target follow those of the source, but only while they are idle."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from replication.flows.checkpoints import Checkpoints
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from tests.support.checkpoints import config_of, emitted, replicated
from tests.support.groups import commit, committed
from tests.support.local import Clusters, Until
from tests.support.stored import stored
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SYNC = {"sync.group.offsets.enabled": "true"}


def test_idle_groups_move_forward_only(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, config = f"g-{topic_name}", config_of(clusters, topic_name, SYNC)
    fill(clusters[0], topic_name, 1, 100)
    tp, remote = TopicPartition(topic_name, 0), TopicPartition(f"A.{topic_name}", 0)
    context = replicated(spark, tmp_path, config)
    checkpoints = Checkpoints(context)

    def synced(offset: int) -> dict[TopicPartition, Committed]:
        commit(clusters[0], group, {tp: Committed(offset, f"at {offset}")})
        checkpoints.round(at_once=True)
        return committed(clusters[1], group)

    assert synced(40) == {remote: Committed(40, "at 40")}
    assert synced(60) == {remote: Committed(60, "at 60")}
    assert synced(20) == {remote: Committed(60, "at 60")}
    commit(clusters[1], group, {remote: Committed(90)})  # it was active on the target
    assert synced(70) == {remote: Committed(90)}


def test_a_rewound_group_is_followed_if_asked_for(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    settings = {**SYNC, "sync.group.offsets.on.rewind": "follow"}
    group, config = f"g-{topic_name}", config_of(clusters, topic_name, settings)
    fill(clusters[0], topic_name, 1, 100)
    tp, remote = TopicPartition(topic_name, 0), TopicPartition(f"A.{topic_name}", 0)
    context = replicated(spark, tmp_path, config)
    checkpoints = Checkpoints(context)

    for offset in (60, 20):
        commit(clusters[0], group, {tp: Committed(offset)})
        checkpoints.round(at_once=True)

    assert committed(clusters[1], group) == {remote: Committed(20)}
    commit(clusters[1], group, {remote: Committed(90)})
    checkpoints.round(at_once=True)
    assert committed(clusters[1], group) == {remote: Committed(90)}


def test_an_active_group_is_not_moved_and_its_members_are_named(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    group, config = f"g-{topic_name}", config_of(clusters, topic_name, SYNC)
    fill(clusters[0], topic_name, 1, 100)
    tp, remote = TopicPartition(topic_name, 0), TopicPartition(f"A.{topic_name}", 0)
    context = replicated(spark, tmp_path, config)
    commit(clusters[0], group, {tp: Committed(40)})
    checkpoints = Checkpoints(context)
    consumer = Consumer(
        {
            "bootstrap.servers": clusters[1].bootstrap,
            "group.id": group,
            "client.id": "busy-bee",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([remote.topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30)

    checkpoints.round(at_once=True)
    checkpoints.round(at_once=True)

    (row,) = stored(context.tables, "events")
    assert (row.kind, row.group) == ("group-active", group)
    assert "busy-bee at" in row.text
    assert committed(clusters[1], group) == {}
    assert emitted(context) == {(group, 0): (40, 40, "")}
    consumer.close()
    checkpoints.round(at_once=True)
    assert committed(clusters[1], group) == {remote: Committed(40)}


class UnreadableGroups(Groups):
    """The groups of a real cluster, except that their committed offsets cannot be read."""

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """Returns no group."""
        del groups
        return {}


def test_a_group_whose_offsets_on_the_target_are_unknown_is_not_moved(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group, config = f"g-{topic_name}", config_of(clusters, topic_name, SYNC)
    fill(clusters[0], topic_name, 1, 100)
    tp, remote = TopicPartition(topic_name, 0), TopicPartition(f"A.{topic_name}", 0)
    context = replicated(spark, tmp_path, config)
    commit(clusters[0], group, {tp: Committed(40)})
    commit(clusters[1], group, {remote: Committed(90)})

    Checkpoints(context, UnreadableGroups(context.jvm, "B", config.target.admin)).round()

    assert committed(clusters[1], group) == {remote: Committed(90)}
