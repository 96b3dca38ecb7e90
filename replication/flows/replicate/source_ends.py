"""Notes where the source's partitions ended when a flow began with them, for its `Tally`."""

from collections.abc import Iterable

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import TopicPartition


def note_ends(context: FlowContext, partitions: Iterable[TopicPartition]) -> None:
    """Notes the log end and the last stable offset of those of *partitions* that are new.

    Without an answer of the source they stay unknown.
    """
    tally, source = context.tally, context.source
    new = tally.without_end(partitions)
    if not new:
        return
    try:
        stable = source.log_ends(new, "read_committed")
        tally.begin(source.log_ends(new), stable, context.config.isolation)
    except ClusterError as error:
        context.log.info("source_ends_unknown", text=error)
