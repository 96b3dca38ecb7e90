"""Topics that are deleted on the source: an event, and later their copies, if that is enabled."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.flows.context import FlowContext
from replication.flows.metadata import Deletions
from replication.state.tables import Tables, now
from replication.upkeep.prepare import prepare_topics
from tests.support.events import kinds_of_topics
from tests.support.flows import flow_config, flow_context
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW
from tests.support.stored import stored
from tests.support.topics import delete_topic

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def replicated(
    spark: SparkSession, tables: Tables, clusters: Clusters, topic: str, **settings: str
) -> FlowContext:
    """A flow that has replicated *topic* and another one, as its last generation recorded it."""
    for name in (topic, f"{topic}-other"):
        create_topic(clusters[0].bootstrap, name, 1)
    keys = {f"replication.deletions.{key}": value for key, value in settings.items()}
    context = flow_context(spark, tables, flow_config(*clusters, f"{topic}.*", keys))
    plan = prepare_topics(context.config, context.source, context.target)
    rows = (
        {
            "flow": str(FLOW),
            "generation": 1,
            "topic": name,
            "remote_topic": remote,
            "topic_id": plan.source_ids[name],
            "remote_id": plan.remote_ids[remote],
            "partitions": 1,
            "at": now(),
        }
        for name, remote in plan.topics.items()
    )
    tables.append("topics", rows)
    return context


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path.as_uri())


def test_a_deleted_source_topic_is_reported_once_and_its_copy_stays(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    context = replicated(spark, tables, clusters, topic_name)
    Deletions(context).round()
    assert kinds_of_topics(tables) == []

    delete_topic(clusters[0], topic_name)
    until(lambda: topic_name not in context.source.topic_names(), 10)
    rounds = Deletions(context)
    rounds.round()
    rounds.round()
    Deletions(context).round()  # as after a restart

    assert kinds_of_topics(tables) == [("source-topic-deleted", topic_name)]
    assert context.target.describe([f"A.{topic_name}"])


def test_a_copy_that_was_deleted_is_not_said_to_stay(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    context = replicated(spark, tables, clusters, topic_name)
    delete_topic(clusters[0], topic_name)
    delete_topic(clusters[1], f"A.{topic_name}")
    until(lambda: topic_name not in context.source.topic_names(), 10)
    until(lambda: f"A.{topic_name}" not in context.target.topic_names(), 10)

    Deletions(context).round()

    (event,) = stored(tables, "events")
    assert event.text.endswith(f"its remote topic A.{topic_name} is not on B either")


def test_the_copy_is_deleted_after_the_grace_time_if_the_flow_says_so(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    settings = {"enabled": "true", "grace.seconds": "0"}
    context = replicated(spark, tables, clusters, topic_name, **settings)
    delete_topic(clusters[0], topic_name)
    until(lambda: topic_name not in context.source.topic_names(), 10)

    Deletions(context).round()
    assert context.target.describe([f"A.{topic_name}"])
    Deletions(context).round()

    until(lambda: not context.target.describe([f"A.{topic_name}"]), 10)
    assert context.target.describe([f"A.{topic_name}-other"])
    assert kinds_of_topics(tables) == [
        ("source-topic-deleted", topic_name),
        ("remote-topic-deleted", topic_name),
    ]
