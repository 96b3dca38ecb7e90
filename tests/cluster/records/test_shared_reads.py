"""The source that shares consumers reads what Spark's own source reads, with a few tasks."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    ProducedRecord,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.counting import RecordSpan, offsets_after, read_windows
from replication.spark.mode import Sharing
from tests.support.local import Clusters, Until
from tests.support.process_tree import paused
from tests.support.topics import (
    delete_records,
    delete_topic,
    difficult,
    fill,
    now_ms,
    send,
    send_records,
)
from tests.support.two_brokers import create_spread_topic, two_brokers

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SHARED = "replication.source.SharedSource"
PARTITIONS = 200
RECORDS = 3_000
EARLIEST = -2


def offsets(topic: str, partitions: int, offset: int = EARLIEST) -> str:
    return json.dumps({topic: {str(number): offset for number in range(partitions)}})


def options(broker: Broker, topic: str, partitions: int, more: Mapping[str, str]) -> dict[str, str]:
    """Options of either source for all records of *topic*."""
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "startingOffsets": offsets(topic, partitions),
        "tasks": "2",
        "assign": json.dumps({topic: list(range(partitions))}),
        "includeHeaders": "true",
        **more,
    }


def drain(spark: SparkSession, settings: Mapping[str, str], folder: Path) -> StreamingQuery:
    """Begins to read what is there in micro-batches."""
    records = spark.readStream.format(SHARED).options(**settings).load()
    return (
        records.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "records"))
    )


def streamed(
    spark: SparkSession, settings: Mapping[str, str], folder: Path
) -> tuple[DataFrame, StreamingQuery]:
    """What a drain reads."""
    query = drain(spark, settings, folder)
    query.awaitTermination()
    schema = spark.read.format(SHARED).options(**settings).load().schema
    return spark.read.schema(schema).parquet(str(folder / "records")), query


def check_equal(found: DataFrame, expected: DataFrame, count: int) -> None:
    """The same rows, each as often."""
    rows = expected.collect()
    assert len(rows) == count
    assert in_order(found.collect()) == in_order(rows)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


@pytest.fixture
def two_hundred(clusters: Clusters, topic_name: str) -> str:
    """A topic of 200 partitions with records of every kind."""
    fill(clusters[0], topic_name, PARTITIONS, RECORDS, difficult)
    return topic_name


def test_two_tasks_read_two_hundred_partitions(
    spark: SparkSession, clusters: Clusters, two_hundred: str
) -> None:
    settings = options(clusters[0], two_hundred, PARTITIONS, {})

    shared = spark.read.format(SHARED).options(**settings).load()

    assert shared.rdd.getNumPartitions() == 2
    assert shared.schema.simpleString() == own(spark, settings).schema.simpleString()
    check_equal(shared, own(spark, settings), RECORDS)


@pytest.mark.soak
def test_one_task_reads_five_thousand_partitions(
    spark: SparkSession, own_broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    many, count = 5_000, 20_000
    fill(own_broker, topic_name, many, count)
    more = {"tasks": "1", "startingOffsets": offsets(topic_name, many, 0)}
    settings = options(own_broker, topic_name, many, {**more, "maxOffsetsPerTrigger": "7000"})

    found, query = streamed(spark, settings, tmp_path)

    rows = found.select("partition", "offset").collect()
    each = range(count // many)
    assert sorted(map(tuple, rows)) == [(tp, offset) for tp in range(many) for offset in each]
    print([batch["durationMs"]["triggerExecution"] for batch in query.recentProgress])  # noqa: T201 - the answer


def own(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
    """The same by Spark's own source."""
    return spark.read.format("kafka").options(**settings).load()


def test_micro_batches_end_in_mid_fetch_and_go_on_there(
    spark: SparkSession, clusters: Clusters, two_hundred: str, tmp_path: Path
) -> None:
    settings = options(clusters[0], two_hundred, PARTITIONS, {"maxOffsetsPerTrigger": "700"})
    starts = {"startingOffsets": offsets(two_hundred, PARTITIONS, 0)}

    found, query = streamed(spark, {**settings, **starts}, tmp_path)

    check_equal(found, own(spark, settings), RECORDS)
    sizes = [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]
    assert len(sizes) > 2
    assert max(sizes) <= 700 + PARTITIONS  # each partition's share is rounded up


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_batches_end_at_markers_of_transactions(
    level: str, spark: SparkSession, clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 5)
    records = islice(plain_records(5, size_bytes=50, now_ms=now_ms()), 600)
    send_transactions(clusters[0].bootstrap, topic_name, records, records_each=20, abort_every=3)
    more = {"kafka.isolation.level": level}
    settings = options(clusters[0], topic_name, 5, {**more, "maxOffsetsPerTrigger": "70"})
    starts = {"startingOffsets": offsets(topic_name, 5, 0)}

    found, _ = streamed(spark, {**settings, **starts}, tmp_path)

    count = 400 if level == "read_committed" else 600
    check_equal(found, own(spark, settings), count)
    check_equal(spark.read.format(SHARED).options(**settings).load(), own(spark, settings), count)


def test_records_are_counted_alike_by_both_sources(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    partitions = 5
    create_topic(clusters[0].bootstrap, topic_name, partitions)
    records = islice(plain_records(partitions, size_bytes=50, now_ms=now_ms()), 600)
    send_transactions(clusters[0].bootstrap, topic_name, records, records_each=20, abort_every=3)
    consumer = {"bootstrap.servers": clusters[0].bootstrap, "isolation.level": "read_committed"}
    tps = [TopicPartition(topic_name, number) for number in range(partitions)]
    with Cluster("A", consumer) as source:
        ends = source.log_ends(tps, "read_committed")
    spans = {tp: RecordSpan(3 * tp.partition, 30) for tp in ends}
    windows = {tp: (span.start, ends[tp]) for tp, span in spans.items()}

    read = partial(read_windows, spark, consumer)
    by_two = partial(read, sharing=Sharing(tasks=2, brokers=1))

    shared, own = (
        offsets_after(reader, spans, ends, CopyRule(), spacing=7) for reader in (by_two, read)
    )

    assert shared == own
    assert len(shared) == partitions
    has_gaps = [shared[tp].until > span.start + span.records for tp, span in spans.items()]
    assert any(has_gaps)
    assert by_two(windows).rdd.getNumPartitions() == 2


def test_records_that_retention_has_deleted_are_a_loss(
    spark: SparkSession, clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    fill(clusters[0], topic_name, 3, 30)
    delete_records(clusters[0], topic_name, 5)
    settings = options(clusters[0], topic_name, 3, {})
    starts = {"startingOffsets": offsets(topic_name, 3, 0)}

    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS: .* out of range"):
        streamed(spark, {**settings, **starts}, tmp_path)


def test_a_micro_batch_whose_topic_is_deleted_fails_soon_and_names_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    """A drain has planned all of its batches when it begins; no look at topics is beside it."""
    create_topic(clusters[0].bootstrap, topic_name, 2)
    for _ in range(20):  # as many batches of the log, of which the client fetches a few ahead
        send(clusters[0], topic_name, 2, 100)
    more = {
        "startingOffsets": offsets(topic_name, 2, 0),
        "maxOffsetsPerTrigger": "10",  # two hundred batches of Spark's
        "kafka.max.partition.fetch.bytes": "1",  # one of Kafka's at a time
        "kafkaConsumer.pollTimeoutMs": "30000",
    }
    query = drain(spark, options(clusters[0], topic_name, 2, more), tmp_path)
    until(lambda: query.lastProgress is not None, 60)
    delete_topic(clusters[0], topic_name)

    lost = rf"KAFKA_DATA_LOSS: deleted while a batch reads them: \[.*{topic_name}-[01]\]"
    with pytest.raises(StreamingQueryException, match=lost):
        query.awaitTermination()


def to_one_partition(count: int) -> Iterator[ProducedRecord]:
    """A backlog of the first partition, of many fetches."""
    yield from islice(plain_records(1, size_bytes=1_000, now_ms=now_ms()), count)


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_a_backlog_does_not_wait_for_idle_partitions(
    compression: str,
    spark: SparkSession,
    clusters: Clusters,
    topic_name: str,
    tmp_path: Path,
    until: Until,
) -> None:
    """Each fetch that is for idle partitions only would take a minute here."""
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 50, {"compression.type": compression})
    create_topic(target.bootstrap, topic_name, 1)
    send(source, topic_name, 50, 50)
    send_records(source, topic_name, to_one_partition(3_000))
    settings = options(
        source,
        topic_name,
        50,
        {
            "startingOffsets": offsets(topic_name, 50, 0),
            "kafka.fetch.max.wait.ms": "60000",
            "kafka.request.timeout.ms": "90000",
            "kafka.max.partition.fetch.bytes": "65536",
            "kafka.max.poll.records": "10",
        },
    )
    await_copies(spark, settings, target, tmp_path, until, 3_050)


def await_copies(
    spark: SparkSession,
    settings: Mapping[str, str],
    target: Broker,
    folder: Path,
    until: Until,
    count: int,
) -> None:
    """Reads in Real-Time Mode until the target's topic of the same name has so many records."""
    (topic,) = json.loads(settings["startingOffsets"])
    records = spark.readStream.format(SHARED).options(**settings).load()
    query = (
        records.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(folder))
        .outputMode("update")
        .trigger(realTime="5 minutes")  # type: ignore[call-overload]  # the stubs lack it
        .start()
    )
    try:
        until(lambda: query.isActive and log_ends(target.bootstrap, [topic])[topic] >= count, 50)
    finally:
        query.stop()


def send_batch(broker: Broker, topic: str, count: int) -> None:
    """Sends so many tiny records to partition 0 as one batch, which compression makes small."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": "zstd",
            "linger.ms": 60_000,  # until it is flushed
            "batch.num.messages": count,
            "batch.size": 100_000_000,
            "message.max.bytes": 100_000_000,
            "queue.buffering.max.messages": count,
        }
    )
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def test_batches_of_more_records_than_a_poll_takes_do_not_wait_for_idle_partitions(
    spark: SparkSession, clusters: Clusters, topic_name: str, tmp_path: Path, until: Until
) -> None:
    """The client would hold the rest back, and fetch the idle ones only, which takes a minute."""
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 20)
    create_topic(target.bootstrap, topic_name, 1)
    for _ in range(2):
        send_batch(source, topic_name, 120_000)
    more = {
        "startingOffsets": offsets(topic_name, 20, 0),
        "kafka.fetch.max.wait.ms": "60000",
        "kafka.request.timeout.ms": "90000",
        "kafka.fetch.max.bytes": "65536",
    }
    settings = options(source, topic_name, 20, more)

    await_copies(spark, settings, target, tmp_path, until, 240_000)


def test_a_poll_that_compressed_records_make_too_large_is_taken_in_smaller_parts(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    """The task may have 64 MiB of records in a poll; its first fetch has 90 MB of them."""
    source, count = clusters[0], 100
    create_topic(source.bootstrap, topic_name, 1, {"compression.type": "zstd"})
    zeros = (
        ProducedRecord(partition=0, key=b"%d" % number, value=bytes(900_000))
        for number in range(count)
    )
    send_records(source, topic_name, zeros)
    settings = options(source, topic_name, 1, {"kafka.fetch.max.bytes": "1048576"})

    found = spark.read.format(SHARED).options(**settings).load()

    rows = found.selectExpr("string(key) as key", "length(value) as size", "offset").collect()
    assert [tuple(row) for row in sorted(rows, key=lambda row: row.offset)] == [
        (str(number), 900_000, number) for number in range(count)
    ]


def test_a_drain_fails_by_the_partition_whose_broker_falls_silent(
    spark: SparkSession,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    """In its middle a task waits in vain; at its beginning nobody knows where it should end."""
    with two_brokers(tmp_path / "source", broker_settings) as (first, second):
        create_spread_topic(first, topic_name)
        for _ in range(20):  # as many batches, of which the client fetches a few ahead
            send(first, topic_name, 2, 100)
        more = {
            "startingOffsets": offsets(topic_name, 2, 0),
            "maxOffsetsPerTrigger": "20",  # a hundred batches of Spark's
            "kafka.max.partition.fetch.bytes": "1",  # one of Kafka's at a time
            "kafkaConsumer.pollTimeoutMs": "10000",
        }
        settings = options(first, topic_name, 2, more)
        query = drain(spark, settings, tmp_path / "middle")
        until(lambda: query.lastProgress is not None, 60)
        assert second.pid
        with paused([second.pid]):
            late = f"no record came within 10000 ms of 1 partitions, such as {topic_name}-1"
            with pytest.raises(StreamingQueryException, match=late):
                query.awaitTermination()
            query = drain(spark, settings, tmp_path / "beginning")
            unknown = rf"no answer where partitions end.*{topic_name}-1"
            with pytest.raises(StreamingQueryException, match=unknown):
                query.awaitTermination()
