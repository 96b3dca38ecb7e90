"""Flows that copy a topic for the groups of a test, and the checkpoints that they emitted."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.flows.context import FlowContext
from replication.model import Flow
from replication.upkeep.groups import checkpoints_topic, read_checkpoints
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW


def config_of(
    clusters: Clusters,
    topic: str,
    settings: Mapping[str, str] | None = None,
    flow: Flow = FLOW,
) -> FlowConfig:
    """The configuration of a flow with *topic* and with the groups of its test."""
    return flow_config(*clusters, topic, {"groups": f"g-{topic}.*", **(settings or {})}, flow)


def replicated(spark: SparkSession, state: Path, config: FlowConfig) -> FlowContext:
    """Drains the flow and returns its connections."""
    flow = RunningFlow(spark, state, config, "drain")
    flow.join()
    return flow.context


def emitted(
    context: FlowContext,
) -> dict[tuple[str, int], tuple[int, int, str]]:
    """The newest checkpoints of the test's groups, by group and partition."""
    return {
        (group, tp.partition): (found.upstream, found.downstream, found.metadata or "")
        for (group, tp), found in read_checkpoints(
            checkpoints_topic(context.target, context.config)
        ).items()
        if group.startswith(context.config.groups.groups[0].removesuffix(".*"))
    }
