"""Commits offsets of a consumer group, and reads them, on a real cluster."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from replication.spark.session import jvm_of


def commit(broker: Broker, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commits for a group without members. Kafka creates the group if it does not exist."""
    with _groups(broker) as groups:
        groups.commit(group, offsets)


def committed(broker: Broker, group: str) -> dict[TopicPartition, Committed]:
    """The committed offsets of *group*; empty if the group does not exist."""
    with _groups(broker) as groups:
        return groups.committed([group])[group]


def _groups(broker: Broker) -> Groups:
    # the active session is one of the JVM's thread, which is another after a call that was cut
    spark = SparkSession._instantiatedSession  # noqa: SLF001
    assert spark is not None, "the test must request the spark fixture"
    return Groups(jvm_of(spark), "test", {"bootstrap.servers": broker.bootstrap})
