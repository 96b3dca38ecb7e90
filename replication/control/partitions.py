"""How many source partitions a flow replicates, by which its task slots are counted."""

from contextlib import suppress
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look, unwritable_topics, without_refused

PATIENCE_SECONDS: Final = 3.0
"""For a cluster that does not answer at all: the start goes on without, and asks it again."""


def partitions_now(flow: FlowConfig) -> tuple[int, tuple[str, ...]]:
    """Returns how many partitions a start of *flow* would replicate now, and warnings.

    Topics that the target would not create count: it may grow while the job runs.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    with (
        Cluster(flow.source.alias, flow.source.admin, patience_s=PATIENCE_SECONDS) as source,
        Cluster(flow.target.alias, flow.target.admin, patience_s=PATIENCE_SECONDS) as target,
    ):
        plan, warnings = look(flow, source, target), list[str]()
        with suppress(ClusterError):  # the start meets that itself, and says it
            warnings.append(set_aside_warning(flow, plan, without_refused(plan, target)))
            warnings += unwritable_topics(plan, target).values()
        return len(plan.partitions), tuple(filter(None, warnings))


def set_aside_warning(flow: FlowConfig, plan: TopicPlan, left: TopicPlan) -> str:
    """Returns what follows if only the topics *left* of *plan* can be created; "" if all can."""
    refused = sorted(plan.topics.keys() - left.topics.keys())
    if not refused:
        return ""
    rest = "" if left.topics else ", so that nothing is replicated"
    return (
        f"{len(refused)} of {len(plan.topics)} topics of {flow.flow} will be set aside{rest}: "
        f"{refused[0]}: {left.rejected[refused[0]]}"
    )


def partitions_then(config: MirrorConfig, flow: FlowConfig) -> int:
    """Returns how many partitions *flow* replicated in its last generation; 0 if there was none.

    Raises:
        StateError: The tables cannot be read.
    """
    # Imported here because only a start without an answer needs what reads tables.
    from replication.state.readers import open_reader  # noqa: PLC0415

    with open_reader(config.access) as state:
        rows = state.rows("topics", flow.flow)
    newest = max((row["generation"] for row in rows), default=0)
    return sum(row["partitions"] for row in rows if row["generation"] == newest)
