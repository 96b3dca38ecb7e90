"""Partitions that do not move although the source has records for them are named once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.flows.replicate.idle import IdlePartitions
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.state.tables import Tables
from replication.upkeep.prepare import prepare_topics
from tests.support.flows import flow_config, flow_context
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.parametrize("is_seen", [False, True], ids=["asks", "seen by the view"])
def test_a_partition_that_stands_before_records_is_named_after_two_minutes(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, *, is_seen: bool
) -> None:
    fill(clusters[0], topic_name, 2, 20)
    tables = Tables(spark, tmp_path.as_uri())
    context = flow_context(spark, tables, flow_config(*clusters, topic_name))
    plan = prepare_topics(context.config, context.source, context.target)
    stands, caught_up = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    pending = PendingRuns({stands: Position(4, 4), caught_up: Position(10, 10)})
    idle = IdlePartitions(context, plan)
    if is_seen:  # whoever asked this client would get an error
        context.metrics.saw_ends(dict.fromkeys(plan.partitions, 10))
        context.source.__exit__()

    for now in (0, 60, 119, 120, 180, 600):
        idle.check(pending, now)
        if now < 120:
            assert not tables.exists("events")

    (event,) = stored(tables, "events")
    assert (event.kind, event.topic, event.partition) == ("stalled", topic_name, 0)
    assert (event.offset_from, event.offset_until) == (4, 10)
    assert pending.positions()[stands] == Position(4, 4)
