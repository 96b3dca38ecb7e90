"""The sides of a flow as its newest copies were written: by the transforms of that time.

A start that finds other transforms in its file still counts and compares what an earlier process
wrote, which only the transforms of that process explain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from replication.config.transforms import is_same_chain
from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.model import Chain
from replication.positions.sides import FlowSides
from replication.positions.survey import Stored
from replication.spark.transform_check import chain_problems
from replication.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class _Written:
    """The sides of *context* with another configuration."""

    context: FlowSides
    config: FlowConfig

    @property
    def source(self) -> Cluster:
        """The cluster to read from."""
        return self.context.source

    @property
    def target(self) -> Cluster:
        """The cluster to write to."""
        return self.context.target

    @property
    def spark(self) -> SparkSession:
        """Reads and compares whole spans of records."""
        return self.context.spark

    @property
    def started_spark(self) -> SparkSession | None:
        """The same session, if it has started."""
        return self.context.started_spark


def changed_transforms(plan: TopicPlan, stored: Stored) -> dict[str, Chain]:
    """Returns by what topics of *plan* were written, where that is not what the plan says."""
    return {
        topic: chain
        for topic, chain in stored.transforms.items()
        if topic in plan.topics and not is_same_chain(chain, plan.transforms.get(topic, ()))
    }


def as_written(context: FlowSides, plan: TopicPlan, stored: Stored) -> FlowSides:
    """Returns *context*, by whose configuration the newest copies of *plan*'s topics were made."""
    changed = changed_transforms(plan, stored)
    if not changed:
        return context
    return _Written(context, replace(context.config, written_by=changed))


def broken_transforms(context: FlowSides, topics: set[str]) -> Mapping[str, str]:
    """Returns why Spark does not evaluate what *topics* were written by, where that is so."""
    chains = {topic: at for topic, at in context.config.written_by.items() if topic in topics}
    found = {chain: chain_problems(context.spark, chain) for chain in set(chains.values())}
    return {
        topic: "; ".join(f"{part}: {text}" for part, text in found[chain])
        for topic, chain in chains.items()
        if found[chain]
    }
