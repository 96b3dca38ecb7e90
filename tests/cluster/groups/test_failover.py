"""Groups move from one cluster to the other and back, and skip no record."""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import (
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.flows.checkpoints import Checkpoints
from replication.model import Committed, TopicPartition
from tests.support.cli import ok, run
from tests.support.failover import PARTITIONS, drain, send, table
from tests.support.gate.clock import Limit
from tests.support.groups import commit, committed
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import now_ms
from tests.support.waiting import Late

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

Place = tuple[int, bytes | None, bytes | None]
T = TypeVar("T")


@pytest.mark.guarantee
def test_over_and_back_on_dense_topics_each_record_is_read_once(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name}", f"A.{topic_name}"
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 3000)
    read = read_as(group, source, topic_name, [100, 1000, 0])
    drain(spark, clusters, tmp_path, topic_name)

    offsets = tmp_path / "over.csv"
    ok(run("export-offsets", file, "--flow", "A->B", "--group", group, "--output", offsets))
    dry = ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets))
    before = committed(target, group)
    ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute"))
    read += read_as(group, target, remote, [400, 0, 33])

    send(source, topic_name, 300)  # the source goes on meanwhile
    back = tmp_path / "back.csv"
    ok(run("failback", file, "--flow", "A->B", "--group", group, "--output", back))
    ok(run("apply-offsets", file, "--cluster", "A", "--offsets", back, "--execute"))
    read += read_as(group, source, topic_name, [2000, 2000, 2000])

    assert "dry run: nothing committed" in dry.stdout
    assert before == {}
    assert offsets.read_text() == (
        f"{group},{remote},0,100\n{group},{remote},1,1000\n"  # nothing was read of the third
    )
    assert Counter(read) == Counter(everything(source, topic_name))
    assert len(read) == 3300


@pytest.mark.parametrize("kind", ["compacted", "transactional"])
def test_over_and_back_on_sparse_topics_no_record_is_skipped(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, kind: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name}", f"A.{topic_name}"
    file = write_config(
        tmp_path, clusters, topic_name, {"A.consumer.isolation.level": "read_committed"}
    )
    if kind == "compacted":
        create_compacted_topic(source.bootstrap, topic_name, 1, now_ms=now_ms())
    else:
        create_topic(source.bootstrap, topic_name, 1)
        records = islice(plain_records(1, size_bytes=20, now_ms=now_ms()), 600)
        send_transactions(source.bootstrap, topic_name, records, records_each=10, abort_every=4)
    every = everything(source, topic_name)
    read = read_as(group, source, topic_name, [len(every) // 3])
    drain(spark, clusters, tmp_path, topic_name)

    over, back = tmp_path / "over.csv", tmp_path / "back.csv"
    ok(run("export-offsets", file, "--flow", "A->B", "--group", group, "--output", over))
    ok(run("apply-offsets", file, "--cluster", "B", "--offsets", over, "--execute"))
    again = len(every) // 3 - int(over.read_text().rsplit(",", 1)[1])
    (shown,) = re.findall(
        rf"{group}.*?at most (\d+) records? may be read again", table(file, group)
    ) or ["0"]
    read += read_as(group, target, remote, [again + len(every) // 3])
    ok(run("failback", file, "--flow", "A->B", "--group", group, "--output", back))
    ok(run("apply-offsets", file, "--cluster", "A", "--offsets", back, "--execute"))
    read += read_as(group, source, topic_name, [len(every)])

    assert set(read) == set(every)
    assert 0 <= again <= int(shown)


def test_without_the_source_the_checkpoints_are_exported(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group = f"g-{topic_name}"
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    send(clusters[0], topic_name, 300)
    commit(clusters[0], group, {TopicPartition(topic_name, 1): Committed(40)})
    flow = drain(spark, clusters, tmp_path, topic_name)
    Checkpoints(flow.context).round()
    nowhere: dict[str, object] = {"A": {"bootstrap.servers": "127.0.0.1:9"}}
    file = write_config(tmp_path, clusters, topic_name, nowhere)

    found = ok(
        run("export-offsets", file, "--flow", "A->B", "--group", group, "--from", "checkpoints")
    )

    assert found.stdout == f"{group},A.{topic_name},1,40\n"


def read_as(group: str, broker: Broker, topic: str, counts: Sequence[int]) -> list[Place]:
    """Reads as *group* from its committed offsets, at most *counts* per partition, and commits."""
    found: list[Place] = []
    with closing(_consumer(broker, group)) as consumer:
        for partition, count in enumerate(counts):
            tp = KafkaTopicPartition(topic, partition)
            (at,) = _until_coordinated(partial(consumer.committed, [tp], timeout=30))
            consumer.assign([KafkaTopicPartition(topic, partition, max(0, at.offset))])
            read = _read(consumer, count)
            found += [place for _, place in read]
            if read:
                after = KafkaTopicPartition(topic, partition, read[-1][0] + 1)
                consumer.commit(offsets=[after], asynchronous=False)
    return found


def _until_coordinated(ask: Callable[[], T]) -> T:
    """The answer of *ask*, once the group has a coordinator: a fresh cluster makes its topic."""
    limit = Limit(30)
    while True:
        try:
            return ask()
        except KafkaException as error:
            if limit.is_over:
                raise Late(f"no coordinator: {error}", limit) from error
        time.sleep(0.1)


def everything(broker: Broker, topic: str) -> list[Place]:
    found: list[Place] = []
    with closing(_consumer(broker, "nobody")) as consumer:
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            consumer.assign([KafkaTopicPartition(topic, partition, 0)])
            found += [place for _, place in _read(consumer, 1 << 40)]
    return found


def _read(consumer: Consumer, count: int) -> list[tuple[int, Place]]:
    """Offsets and contents of up to *count* records, ended by the end of the partition."""
    found: list[tuple[int, Place]] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, "no answer"
        if message.error():
            break  # the end
        content = (message.partition() or 0, message.key(), message.value())
        found.append((message.offset() or 0, content))
    return found


def _consumer(broker: Broker, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
