"""What becomes of a flow's records between Spark's source and its sink, whoever runs it."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from replication.config.tree import FlowConfig
from replication.spark.acknowledged import is_reported
from replication.spark.distance import RoundTrips
from replication.spark.kafka_options import NEAR, sink_options
from replication.spark.projection import to_target
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan


def crossing(config: FlowConfig, plan: TopicPlan, records: DataFrame) -> DataFrame:
    """Returns the *records* of the source as they are written to the target."""
    return to_target(
        records,
        plan.topics,
        copy_rule(config, plan.topics),
        intercepted=_is_intercepted(config, records.sparkSession),
    )


def sink(
    config: FlowConfig,
    spark: SparkSession,
    limits: Mapping[str, int],
    tasks: int,
    distance: RoundTrips = NEAR,
) -> dict[str, str]:
    """Returns options for a sink that this many *tasks* write to; *limits* as in `sink_options`."""
    return sink_options(
        config.target.producer,
        config.flow,
        intercepted=_is_intercepted(config, spark),
        limits=limits.values(),
        tasks=tasks,
        distance=distance,
    )


def compressing(config: FlowConfig, plan: TopicPlan) -> FlowConfig:
    """Returns *config* with the codec of *plan*'s copies, a part of `TopicPlan.by_codec`."""
    if not plan.codecs:
        return config
    codec = next(iter(plan.codecs.values()))
    producer = {**config.target.producer, "compression.type": codec}
    return replace(config, target=replace(config.target, producer=producer))


def _is_intercepted(config: FlowConfig, spark: SparkSession) -> bool:
    return config.record_timestamps == "preserve" or is_reported(spark)
