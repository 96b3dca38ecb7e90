"""Notices that a shared remote partition has lost its last records and has grown again since.

Where a flow is the only writer, a log that is shorter than the offset map shows it. Here others may
have written beyond that place, so the last record that the map has is compared with its original.
"""

from collections.abc import Iterable, Mapping

from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun
from replication.positions.originals import Copies, Originals
from replication.positions.sides import FlowSides
from replication.positions.survey import Stored
from replication.positions.tails import fingerprints_at
from replication.topics.copy_rule import copy_rule


def find_cuts(
    context: FlowSides,
    stored: Stored,
    resumed: Mapping[TopicPartition, int],
    remote: Mapping[TopicPartition, TopicPartition],
) -> dict[TopicPartition, str]:
    """Returns what was cut, for an operator, by upstream partition; usually nothing.

    A record that either side no longer has is not compared: retention may have deleted it.

    Args:
        context: The flow.
        stored: Its offset map.
        resumed: Where the partitions resume upstream, all of them by the offset map.
        remote: Their remote partitions.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    if not resumed:
        return {}
    rule = copy_rule(context.config, {tp.topic for tp in resumed})
    maps = stored.maps(resumed)
    last = {tp: run for tp, found in maps.items() if (run := _last_copied(found.offsets.runs))}
    with Originals(context, rule) as source:
        offsets = {tp: run.src_until - 1 for tp, run in last.items()}
        originals = fingerprints_at(source, offsets)
    with Copies(context, rule, "read_uncommitted") as target:
        offsets = {remote[tp]: run.tgt_until - 1 for tp, run in last.items()}
        copies = fingerprints_at(target, offsets)
    return {
        tp: f"offset {run.tgt_until - 1} of {remote[tp]} no longer holds the copy of offset "
        f"{run.src_until - 1}: the end of its log was lost, and others have written there since"
        for tp, run in last.items()
        if tp in originals and not originals[tp].equals(copies.get(remote[tp], originals[tp]))
    }


def _last_copied(runs: Iterable[OffsetRun]) -> OffsetRun | None:
    """Returns the last run on the target of whose last record both offsets are known."""
    return max(
        (run for run in runs if run.is_dense and not run.is_anchor),
        key=lambda run: run.tgt_until,
        default=None,
    )
