"""With ``replication.compression.type=source`` copies have the codecs of their topics' batches."""

from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.model import TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.topics import assert_equal, await_markers, now_ms

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
IS_CONTROL = 0x20


def batches(broker: Broker, topic: str) -> Iterator[str]:
    """The codec of each batch of records in the log, by the bytes of its header."""
    for file in sorted((broker.folder / "data" / f"{topic}-0").glob("*.log")):
        log, at = file.read_bytes(), 0
        while at + 61 <= len(log):
            (size,) = unpack_from(">i", log, at + 8)
            (attributes,) = unpack_from(">h", log, at + 21)
            if not attributes & IS_CONTROL:
                yield CODECS[attributes & 7]
            at += 12 + size


def send(broker: Broker, topic: str, codec: str, *, is_transaction: bool = False) -> None:
    """Sends 50 records; a transaction ends with a marker, a batch without a codec."""
    identity = {"transactional.id": topic} if is_transaction else {}
    servers = {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50}
    producer = Producer({**servers, **identity})
    if is_transaction:
        producer.init_transactions(30)
        producer.begin_transaction()
    for n in range(50):
        producer.produce(topic, b"x" * 500, b"%d" % n, timestamp=now_ms())
    if is_transaction:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0
    await_markers(broker, TopicPartition(topic, 0))


@pytest.mark.guarantee
def test_copies_have_the_codec_of_the_source_and_follow_a_change(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    topics = {codec: f"{topic_name}-{codec}" for codec in CODECS}
    for codec, topic in topics.items():
        create_topic(source.bootstrap, topic, 1)
        send(source, topic, codec, is_transaction=codec == "zstd")
    settings = {"replication.compression.type": "source"}
    config = flow_config(source, target, f"{topic_name}.*", settings)
    RunningFlow(spark, tmp_path, config, "drain").join()
    found = {codec: set(batches(target, f"A.{topic}")) for codec, topic in topics.items()}
    send(source, topics["zstd"], "lz4")
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert found == {codec: {codec} for codec in CODECS}
    assert set(batches(target, f"A.{topics['zstd']}")) == {"zstd", "lz4"}
    for topic in topics.values():
        assert_equal(clusters, topic)
