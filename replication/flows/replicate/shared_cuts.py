"""Notices that a shared remote partition has lost its last records and has grown again since.

Where a flow is the only writer, a log that is shorter than the offset map shows it. Here others may
have written beyond that place, so the last record that the map has is compared with its original.
"""

from collections.abc import Iterable, Mapping

from replication.flows.context import FlowContext
from replication.flows.replicate.match import compared_timestamps
from replication.flows.replicate.tails import fingerprint
from replication.kafka.reader import Reader
from replication.model import Timestamps, TopicPartition
from replication.offsets.runs import OffsetRun
from replication.state.spark_reader import reader_of


def find_cuts(
    context: FlowContext,
    resumed: Mapping[TopicPartition, int],
    remote: Mapping[TopicPartition, TopicPartition],
) -> dict[TopicPartition, str]:
    """What was cut, for an operator, by upstream partition; most have nothing to say.

    A record that either side no longer has is not compared: retention may have deleted it.

    Args:
        context: The flow.
        resumed: Where the partitions resume upstream, all of them by the offset map.
        remote: Their remote partitions.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    if not resumed:
        return {}
    config = context.config
    maps = reader_of(context.tables).offsets(config.flow).maps(resumed)
    last = {tp: run for tp, found in maps.items() if (run := _last_copied(found.offsets.runs))}
    times = compared_timestamps(context, {remote[tp].topic for tp in last})
    times_of = {tp: times[remote[tp].topic] for tp in last}
    with Reader(config.source.consumer, config.isolation) as source:
        originals = _digests(source, {tp: run.src_until - 1 for tp, run in last.items()}, times_of)
    with Reader(config.target.consumer, "read_uncommitted") as target:
        copies = _digests(
            target,
            {remote[tp]: run.tgt_until - 1 for tp, run in last.items()},
            {remote[tp]: of_copy for tp, of_copy in times_of.items()},
        )
    return {
        tp: f"offset {run.tgt_until - 1} of {remote[tp]} no longer holds the copy of offset "
        f"{run.src_until - 1}: the end of its log was lost, and others have written there since"
        for tp, run in last.items()
        if tp in originals and originals[tp] != copies.get(remote[tp], originals[tp])
    }


def _last_copied(runs: Iterable[OffsetRun]) -> OffsetRun | None:
    """The last run on the target of whose last record both offsets are known."""
    return max(
        (run for run in runs if run.is_dense and not run.is_anchor),
        key=lambda run: run.tgt_until,
        default=None,
    )


def _digests(
    reader: Reader,
    offsets: Mapping[TopicPartition, int],
    timestamps: Mapping[TopicPartition, Timestamps],
) -> dict[TopicPartition, bytes]:
    """The hash of the record at one offset of each partition; absent where there is none."""
    found: dict[TopicPartition, bytes] = {}
    reader.visit(
        {tp: (offset, offset + 1) for tp, offset in offsets.items()},
        lambda tp, record: found.update({tp: fingerprint(record, timestamps[tp]).digest}),
    )
    return found
