"""A group that no broker lists is gone only if its coordinator says so."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.errors import ClusterError
from replication.flows.checkpoints.rounds import Checkpoints
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from replication.spark.session import jvm_of
from tests.support.checkpoints import config_of, replicated
from tests.support.groups import commit
from tests.support.local import Clusters, Until
from tests.support.stored import stored
from tests.support.topics import fill
from tests.support.two_brokers import two_brokers

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

QUICK = {"A.admin.default.api.timeout.ms": "3000", "A.admin.request.timeout.ms": "2000"}


def test_a_group_whose_coordinator_is_down_is_not_reported_as_deleted(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    with two_brokers(tmp_path / "source", broker_settings) as (first, second):
        fill(first, topic_name, 1, 10)
        config = config_of((first, clusters[1]), topic_name, QUICK)
        context = replicated(spark, tmp_path / "state", config)
        names = [f"g-{topic_name}-{number}" for number in range(10)]
        for name in names:
            commit(first, name, {TopicPartition(topic_name, 0): Committed(5)})
        of_first = sorted(name for name in names if coordinator_of(first, name) == 1)
        assert 0 < len(of_first) < len(names)  # by their hashes
        checkpoints = Checkpoints(context)
        checkpoints.round(at_once=True)

        second.stop()
        with Groups(jvm_of(spark), "A", config.source.admin) as groups:
            until(lambda: set(names) & groups.states().keys() == set(of_first), 60)
        delete_group(first, of_first[0])
        # the second one is another process, which knows the checkpoints
        for rounds in (checkpoints, Checkpoints(context)):
            with suppress(ClusterError):  # a client may ask the broker that is down
                rounds.round(at_once=True)

    events = stored(context.tables, "events", "kind = 'group-gone'")
    assert [event.group for event in events] == [of_first[0]]


def coordinator_of(broker: Broker, group: str) -> int | None:
    """The id of the broker that keeps *group*."""
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})  # the stubs lack the answer
    node = admin.describe_consumer_groups([group])[group].result(30).coordinator
    return node.id if node else None


def delete_group(broker: Broker, group: str) -> None:
    """Deletes *group*; returns when its coordinator has done it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_consumer_groups([group])[group].result(30)
