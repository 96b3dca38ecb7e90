"""What must be refused of a flow's transforms, for a command: it starts Spark on this machine."""

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.positions.sides import AskedSides, compared
from replication.positions.transform_trial import transform_refusals
from replication.topics.topic_plan import TopicPlan


def refused_transforms(
    config: FlowConfig, plan: TopicPlan, clusters: tuple[Cluster, Cluster]
) -> list[str]:
    """Returns why a start of the flow would refuse its transforms; nothing without any.

    Raises:
        ClusterError: A cluster does not answer.
        SetupError: Spark does not start here.
    """
    if not config.transforms:
        return []
    with AskedSides(config, clusters) as sides, compared(config.flow):
        return transform_refusals(sides, plan)
