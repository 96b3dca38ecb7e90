"""Offset syncs follow the finished runs, and neither checkpoints nor records depend on them."""

from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from replication.flows.checkpoints import Checkpoints
from replication.flows.replicate.map_writer import offset_syncs_topic
from replication.kafka.api import RecordSender
from replication.kafka.calls import open_sender
from replication.kafka.internal_topic import InternalTopic
from replication.mm2.wire import OffsetSync
from replication.model import Committed, TopicPartition
from tests.support.checkpoints import config_of, emitted, replicated
from tests.support.flows import RunningFlow, unique_flow
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.topics import fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.parametrize("location", ["source", "target"])
def test_offset_syncs_follow_the_finished_runs(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, location: str
) -> None:
    settings = {"offset-syncs.topic.location": location, "offset.lag.max": "99"}
    config = config_of(clusters, topic_name, settings)
    fill(clusters[0], topic_name, 2, 1000)

    context = replicated(spark, tmp_path, config)
    send(clusters[0], topic_name, 2, 10)
    replicated(spark, tmp_path, config)

    topic = offset_syncs_topic(context)
    assert topic.name == f"mm2-offset-syncs.{'B' if location == 'source' else 'A'}.internal"
    syncs = [OffsetSync.decode(record.key, record.value) for record in topic.records()]
    ours = [(sync.upstream, sync.downstream) for sync in syncs if sync.partition == (topic_name, 0)]
    assert ours == [(99, 99), (299, 299), (399, 399), (499, 499), (504, 504)]
    holder = context.source if location == "source" else context.target
    settings_of = holder.topic_config([topic.name])[topic.name]
    assert settings_of["cleanup.policy"].value == "compact"
    assert holder.describe([topic.name])[topic.name].partitions == 1


def test_without_offset_syncs_checkpoints_are_just_as_exact(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    flow = unique_flow()
    settings = {"emit.offset-syncs.enabled": "false"}
    config = config_of(clusters, topic_name, settings, flow)
    fill(clusters[0], topic_name, 1, 100)
    commit(clusters[0], f"g-{topic_name}", {TopicPartition(topic_name, 0): Committed(42)})

    context = replicated(spark, tmp_path, config)
    Checkpoints(context).round()

    assert offset_syncs_topic(context).name not in context.source.topic_names()
    assert emitted(context) == {(f"g-{topic_name}", 0): (42, 42, "")}


def test_offset_syncs_that_cannot_be_written_do_not_delay_replication(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = unique_flow()
    settings = {"offset-syncs.topic.replication.factor": "3"}  # the cluster has one broker
    config = config_of(clusters, topic_name, settings, flow)
    fill(clusters[0], topic_name, 1, 100)

    context = replicated(spark, tmp_path, config)

    remote = TopicPartition(f"{flow.source}.{topic_name}", 0)
    assert context.target.log_ends([remote]) == {remote: 100}
    assert "event=offset_syncs_delayed" in caplog.text


def test_a_flow_at_rest_keeps_no_producer_for_its_syncs_and_has_one_again_with_the_next_record(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, is_at_rest = list[RecordSender](), Event()
    disconnect = InternalTopic.disconnect

    def opening(properties: Mapping[str, str], timeout_s: float) -> RecordSender:
        opened.append(open_sender(properties, timeout_s))
        return opened[-1]

    def resting(topic: InternalTopic) -> None:
        disconnect(topic)
        if opened:
            is_at_rest.set()

    monkeypatch.setattr("replication.kafka.internal_topic.open_sender", opening)
    monkeypatch.setattr(InternalTopic, "disconnect", resting)
    settings = {"state.write.interval.seconds": "1", "offset.lag.max": "0"}
    config = config_of(clusters, topic_name, settings, unique_flow())
    fill(clusters[0], topic_name, 1, 100)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    topic = offset_syncs_topic(flow.context)

    flow.until(is_at_rest.is_set)
    known = len(topic.records())
    send(clusters[0], topic_name, 1, 10)
    flow.until(lambda: len(topic.records()) > known)
    flow.stop()

    assert len(opened) == 2
