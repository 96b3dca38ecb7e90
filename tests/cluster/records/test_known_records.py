"""What a flow knows of acknowledged records before their batch ends, and of offsets without any."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.compare import compare
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.model import TopicPartition
from replication.offsets.map import Exact, NoAnswer
from replication.offsets.runs import OffsetRun
from replication.spark.session import jvm_of
from tests.support.flows import RunningFlow, flow_config
from tests.support.known import known_map, known_until
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import record_events, stored_runs
from tests.support.topics import assert_equal, copied, fill, now_ms, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LONG_BATCH = {"replication.realtime.batch.seconds": "600"}
KNOWN_SECONDS = 2
"""Executors report twice a second, and the flow takes the reports twice a second."""


@pytest.mark.guarantee
def test_a_record_is_in_the_map_long_before_its_batch_ends(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    compacted = f"{topic_name}-compacted"
    fill(source, topic_name, 1, 2000)
    left = create_compacted_topic(source.bootstrap, compacted, 1, now_ms=now_ms())
    flow = RunningFlow(
        spark, tmp_path, flow_config(source, target, f"{topic_name}.*", LONG_BATCH), "realtime"
    )
    flow.until(lambda: copied(clusters, topic_name) + copied(clusters, compacted) >= 2000 + left)

    # the last record of the compacted topic lies before its log end, which no report gives
    flow.until(lambda: known_until(flow, TopicPartition(topic_name, 0)) == 2000, KNOWN_SECONDS)
    flow.until(lambda: known_until(flow, TopicPartition(compacted, 0)) > 0, KNOWN_SECONDS)
    dense, sparse = (known_map(flow, TopicPartition(name, 0)) for name in (topic_name, compacted))
    flow.stop()

    reports = compare(
        source.bootstrap,
        target.bootstrap,
        {topic_name: f"A.{topic_name}", compacted: f"A.{compacted}"},
        keep_offsets=True,
    )
    (pairs,) = (part.offsets for part in reports[topic_name].partitions)
    assert [dense.translate(upstream) for upstream, _ in pairs] == [Exact(at) for _, at in pairs]
    (pairs,) = (part.offsets for part in reports[compacted].partitions)
    answers = [(sparse.translate(upstream), at) for upstream, at in pairs]
    assert not any(isinstance(answer, NoAnswer) for answer, _ in answers)
    assert all(at - 100 <= answer.offset <= at for answer, at in answers)  # type: ignore[union-attr]
    assert record_events(flow.tables) == []


def test_what_an_earlier_process_has_stored_is_known_with_what_is_new(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    tp = TopicPartition(topic_name, 0)
    config = flow_config(source, target, topic_name, LONG_BATCH)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path, config, "drain").join()
    send(source, topic_name, 1, 10)

    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: known_until(flow, tp) == 110)
    answers = [known_map(flow, tp).translate(at) for at in (0, 50, 105)]
    flow.stop()

    assert answers == [Exact(0), Exact(50), Exact(105)]


def test_an_idle_transactional_partition_outlives_its_retention(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    tp = TopicPartition(topic_name, 0)
    create_topic(source.bootstrap, topic_name, 1)
    records = islice(plain_records(1, size_bytes=50, now_ms=now_ms()), 100)
    committed = send_transactions(
        source.bootstrap, topic_name, records, records_each=10, abort_every=2
    )
    end = log_ends(source.bootstrap, [topic_name])[topic_name]
    config = flow_config(source, target, topic_name, LONG_BATCH)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) >= committed)
    flow.until(lambda: known_until(flow, tp) == end)

    delete_records(source, tp, end)
    flow.stop()
    send(source, topic_name, 1, 30)
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == committed + 30
    assert record_events(flow.tables) == []


def test_a_quota_on_the_target_repeats_nothing_whatever_the_client_id(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 20_000)
    config = flow_config(
        source,
        target,
        topic_name,
        {"B.producer.client.id": topic_name, "B.producer.batch.size": "16384"},
    )

    with quota(spark, target, topic_name, bytes_per_second=20_000):
        flow = RunningFlow(spark, tmp_path, config, "microbatch")
        flow.until(lambda: copied(clusters, topic_name) > 0)
        flow.stop()
        at_stop = copied(clusters, topic_name)
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert 0 < at_stop < 20_000, "the quota did not hold anything back"
    assert copied(clusters, topic_name) == 20_000
    assert_equal(clusters, topic_name)
    (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0))
    assert run.is_dense


@pytest.mark.guarantee
def test_records_beyond_the_map_that_retention_has_passed_are_recorded(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    tp = TopicPartition(topic_name, 0)
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    send(source, topic_name, 1, 50)
    RunningFlow(spark, tmp_path / "lost", config, "drain").join()
    delete_records(source, tp, 120)
    send(source, topic_name, 1, 10)

    flow = RunningFlow(spark, tmp_path / "state", config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == 160
    assert stored_runs(flow.tables, FLOW, tp) == [OffsetRun(0, 160, 0, 160)]


def delete_records(broker: Broker, tp: TopicPartition, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = KafkaPartition(tp.topic, tp.partition, before)
    admin.delete_records([partition])[partition].result(30)


@contextmanager
def quota(
    spark: SparkSession, broker: Broker, client_id: str, *, bytes_per_second: int
) -> Iterator[None]:
    """Limits what producers of this client id may write, inside the block."""
    jvm = jvm_of(spark)
    kafka = jvm.org.apache.kafka
    entity = kafka.common.quota.ClientQuotaEntity({"client-id": client_id})
    admin = kafka.clients.admin.Admin.create({"bootstrap.servers": broker.bootstrap})

    def alter(rate: float | None) -> None:
        limit = None if rate is None else jvm.java.lang.Double.valueOf(rate)
        change = kafka.common.quota.ClientQuotaAlteration(
            entity, [kafka.common.quota.ClientQuotaAlteration.Op("producer_byte_rate", limit)]
        )
        admin.alterClientQuotas([change]).all().get()

    try:
        alter(float(bytes_per_second))
        yield
        alter(None)
    finally:
        admin.close()
