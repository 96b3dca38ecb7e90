"""Keeps a flow from transforms whose copies nobody could compare again."""

from replication.errors import ClusterError, GuardError
from replication.flows.context import FlowContext
from replication.positions.sides import compared
from replication.positions.transform_trial import transform_refusals
from replication.upkeep.prepare import look


def refused_transforms(context: FlowContext) -> list[str]:
    """Returns why the flow's transforms must not change a record; nothing without any.

    As with the ids of its clusters, a silent cluster is not waited for.
    """
    clusters = context.source, context.target
    if not context.config.transforms or any(cluster.is_silent for cluster in clusters):
        return []
    try:
        with compared(context.config.flow):
            return transform_refusals(context, look(context.config, *clusters))
    except (ClusterError, GuardError) as error:  # the flow meets it as well
        context.log.info("transforms_not_sampled", text=error)
        return []
