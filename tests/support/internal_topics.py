"""The records of MirrorMaker 2's internal topics, written and read without the code under test."""

from collections.abc import Iterable
from typing import TypeVar

from confluent_kafka import Producer

from replication.demo.brokers import Broker
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import read_records
from replication.mm2.wire import Checkpoint, Heartbeat, OffsetSync
from replication.model import Flow, NewTopic, TopicPartition

InternalRecord = OffsetSync | Checkpoint | Heartbeat
R = TypeVar("R", OffsetSync, Checkpoint, Heartbeat)


def write_internal(broker: Broker, topic: str, records: Iterable[InternalRecord]) -> None:
    """Creates *topic* as MirrorMaker 2 would, and writes *records*."""
    compact = NewTopic(topic, 1, 1, (("cleanup.policy", "compact"),))
    with Cluster("X", {"bootstrap.servers": broker.bootstrap}) as cluster:
        cluster.create_topics([compact])
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for record in records:
        producer.produce(topic, key=record.key(), value=record.value(), partition=0)
    assert producer.flush(30) == 0


def read_internal(broker: Broker, topic: str, kind: type[R]) -> list[R]:
    """The decoded records of *topic*. Each must encode to the very bytes that it was read from."""
    decoded = []
    for record in records(broker, topic):
        value = kind.decode(record.key, record.value)
        assert (value.key(), value.value()) == (record.key, record.value)
        decoded.append(value)
    return decoded


def heartbeats(broker: Broker, flow: Flow, topic: str = "heartbeats") -> list[Heartbeat]:
    """The heartbeats of *flow*; other tests write to this topic, too."""
    decoded = [Heartbeat.decode(record.key, record.value) for record in records(broker, topic)]
    return [beat for beat in decoded if (beat.source, beat.target) == (flow.source, flow.target)]


def records(broker: Broker, topic: str) -> list[KafkaRecord]:
    """All records of partition 0; none if the topic does not exist."""
    properties = {"bootstrap.servers": broker.bootstrap}
    tp = TopicPartition(topic, 0)
    with Cluster("any", properties) as cluster:
        end = cluster.log_ends([tp]).get(tp, 0)
    return read_records(properties, tp, 0, end, "read_uncommitted") if end else []
