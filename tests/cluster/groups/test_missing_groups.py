"""A group that no broker lists is gone only if its coordinator says so."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.control.failover import failover_offsets
from replication.control.groups import FlowView
from replication.demo.brokers import Broker, BrokerSettings
from replication.errors import ClusterError
from replication.flows.checkpoints import Checkpoints
from replication.flows.context import FlowContext
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from replication.spark.session import jvm_of
from replication.state.tables import reader_of
from tests.support.checkpoints import config_of, replicated
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import fill
from tests.support.two_brokers import two_brokers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

QUICK = {"A.admin.default.api.timeout.ms": "3000", "A.admin.request.timeout.ms": "2000"}


@dataclass
class Half:
    """A flow whose source has lost one of two brokers, with groups on both, by their names."""

    context: FlowContext
    first: Broker
    kept: list[str]
    lost: list[str]
    checkpoints: Checkpoints


@pytest.fixture(scope="module")
def half(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Half]:
    folder, topic = tmp_path_factory.mktemp("half"), f"half-{uuid4().hex[:8]}"
    with two_brokers(folder / "source", broker_settings) as (first, second):
        fill(first, topic, 1, 10)
        config = config_of((first, clusters[1]), topic, QUICK)
        context = replicated(spark, folder / "state", config)
        names = [f"g-{topic}-{number}" for number in range(10)]
        for name in names:
            commit(first, name, {TopicPartition(topic, 0): Committed(5)})
        kept = sorted(name for name in names if coordinator_of(first, name) == 1)
        lost = sorted(set(names) - set(kept))
        assert kept
        assert lost  # by their hashes
        checkpoints = Checkpoints(context)
        checkpoints.round(at_once=True)

        second.stop()
        with Groups(jvm_of(spark), "A", config.source.admin) as groups:
            wait_until(lambda: set(names) & groups.states().keys() == set(kept), 60)
        yield Half(context, first, kept, lost, checkpoints)


def test_a_group_whose_coordinator_is_down_is_not_reported_as_deleted(half: Half) -> None:
    gone = half.kept.pop()
    delete_group(half.first, gone)
    # the second one is another process, which knows the checkpoints
    for rounds in (half.checkpoints, Checkpoints(half.context)):
        with suppress(ClusterError):  # a client may ask the broker that is down
            rounds.round(at_once=True)

    events = stored(half.context.tables, "events", "kind = 'group-gone'")
    assert [event.group for event in events] == [gone]


def test_commands_name_the_groups_that_they_cannot_know(half: Half) -> None:
    context, config = half.context, half.context.config
    offsets = reader_of(context.tables).offsets(config.flow)
    view = FlowView(
        config,
        context.source,
        context.target,
        offsets,
        lambda cluster: Groups(context.jvm, cluster.alias, cluster.admin),
        lambda _keys: [],
    )

    found = failover_offsets(view, lambda _: True)

    assert {offset.group for offset in found.offsets} >= set(half.kept)
    for name in half.lost:
        assert any(f"group {name} is missing: " in problem for problem in found.problems)
    assert any("partitions of __consumer_offsets" in problem for problem in found.problems)


def coordinator_of(broker: Broker, group: str) -> int | None:
    """The id of the broker that keeps *group*."""
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})  # the stubs lack the answer
    node = admin.describe_consumer_groups([group])[group].result(30).coordinator
    return node.id if node else None


def delete_group(broker: Broker, group: str) -> None:
    """Deletes *group*; returns when its coordinator has done it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_consumer_groups([group])[group].result(30)
