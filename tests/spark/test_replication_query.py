"""The plan of a flow's query, which needs no broker until it starts."""

import re

import pytest
from pyspark.sql import SparkSession

from replication.config.parse import parse
from replication.flows.replicate.generation import QuerySetup, replication_query
from replication.model import Mode, TopicPartition
from replication.spark.mode import Reading
from replication.topics.topic_plan import TopicPlan

pytestmark = pytest.mark.spark

LINES = {
    "clusters": "A, B",
    "A.bootstrap.servers": "nowhere:1",
    "B.bootstrap.servers": "nowhere:2",
    "A->B.enabled": "true",
    "A->B.topics": "orders",
}
PLAN = TopicPlan(
    topics={"orders": "A.orders"},
    create=(),
    grow={},
    partitions=(TopicPartition("orders", 0),),
    source_ids={},
)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_record_is_projected_once_and_then_counted(spark: SparkSession, mode: Mode) -> None:
    (config,) = parse("test.yaml", LINES, default_state_dir="file:///unused").flows

    starts = {TopicPartition("orders", 0): 0}
    writer = replication_query(
        spark, config, PLAN, starts, QuerySetup("plan", Reading(mode, "spark", 1), {})
    )

    frame = writer._df._jdf  # noqa: SLF001 - a writer shows its plan nowhere else
    analyzed = frame.queryExecution().analyzed()
    session = spark._jsparkSession  # noqa: SLF001 - the optimizer has no other door
    plan = session.sessionState().optimizer().execute(analyzed).toString()
    steps = [re.sub(r"^[\s:+~-]*", "", line).split()[0] for line in plan.splitlines()]
    assert steps == ["CollectMetrics", "Project", "StreamingRelationV2"], plan
