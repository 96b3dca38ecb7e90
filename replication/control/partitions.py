"""How many source partitions a flow replicates, by which its task slots are counted."""

from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.kafka.cluster import open_clusters
from replication.upkeep.prepare import look

PATIENCE_SECONDS: Final = 3.0
"""For a cluster that does not answer at all: the start goes on without, and asks it again."""


def partitions_now(flow: FlowConfig) -> int:
    """Returns how many partitions a start of *flow* would replicate now.

    Topics that the target would not create count: it may grow while the job runs.
    """
    with open_clusters(flow, PATIENCE_SECONDS) as (source, target):
        return len(look(flow, source, target).partitions)


def partitions_then(config: MirrorConfig, flow: FlowConfig) -> int:
    """Returns how many partitions *flow* replicated in its last generation; 0 if there was none."""
    # Imported here because only a start without an answer needs what reads tables.
    from replication.state.readers import open_reader  # noqa: PLC0415

    with open_reader(config.access) as state:
        rows = state.rows("topics", flow.flow)
    newest = max((row["generation"] for row in rows), default=0)
    return sum(row["partitions"] for row in rows if row["generation"] == newest)
