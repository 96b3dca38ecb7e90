"""Asks brokers whether logs were cut below what was copied, by the epochs of their leaders.

The leaders of today are asked for first, which is cheap. Where one is another than the offset map
has, the dear question follows: up to where is its log that of the earlier leader?
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.kafka.epoch_ends import parted_at
from replication.log import Log
from replication.model import TopicPartition
from replication.offsets.epochs import UNSTAMPED, Epochs, Stamp, cut_of, is_in_doubt
from replication.positions.spans import LogSpans
from replication.positions.survey import Stored
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


def with_cuts(
    config: FlowConfig,
    clusters: tuple[Cluster, Cluster],
    plan: TopicPlan,
    known: Stored,
    spans: LogSpans,
) -> LogSpans:
    """Adds to *spans* today's leaders' epochs, and what they say of cuts.

    A cluster that does not answer this leaves it unknown.
    """
    copies = {tp: copy for tp, copy in plan.copies.items() if spans.target_ends.get(tp)}
    copied = {tp: known.anchors[tp].position for tp in copies if tp in known.anchors}
    stamps = {tp: known.stamps.get(tp, UNSTAMPED) for tp in copied}
    source = _epochs(clusters[0], {tp: tp for tp in plan.partitions if spans.source_ends.get(tp)})
    target = _epochs(clusters[1], copies)
    ours = cuts_of(
        config.source.consumer,
        {tp: CopiedTo(tp, at.upstream, stamps[tp].source) for tp, at in copied.items()},
        source,
    )
    theirs = cuts_of(
        config.target.consumer,
        {tp: CopiedTo(copies[tp], at.downstream, stamps[tp].target) for tp, at in copied.items()},
        target,
    )
    return replace(
        spans,
        epochs={tp: Epochs(source.get(tp), target.get(tp)) for tp in source.keys() | target.keys()},
        source_cuts=ours[0],
        target_cuts=theirs[0],
        unsure=(ours[1], theirs[1]),
    )


def _epochs(
    cluster: Cluster, partitions: Mapping[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        found = cluster.leader_epochs(list(partitions.values()))
    except ClusterError as error:  # whoever needs the cluster meets the same, and says it
        log.info("leader_epochs_unknown", text=error)
        return {}
    return {tp: found[at] for tp, at in partitions.items() if at in found}


class CopiedTo(NamedTuple):
    """A partition on its side, the offset up to which it was copied, and what is known of it."""

    own: TopicPartition
    at: int
    stamp: Stamp | None


def cuts_of(
    consumer: Mapping[str, str],
    copied: Mapping[TopicPartition, CopiedTo],
    now: Mapping[TopicPartition, int | None],
) -> tuple[dict[TopicPartition, int], frozenset[TopicPartition]]:
    """Returns where logs were cut, and of which of them nobody knows it, by upstream partition."""
    doubts = {
        own: stamp
        for tp, (own, _, stamp) in copied.items()
        if stamp is not None and is_in_doubt(stamp, now.get(tp))
    }
    same = parted_at(consumer, doubts)
    found = {
        tp: cut_of(at, stamp, now.get(tp), same.get(own))
        for tp, (own, at, stamp) in copied.items()
        if at  # of what was not copied, nothing can be lost
    }
    cuts = {tp: cut for tp, cut in found.items() if isinstance(cut, int)}
    return cuts, frozenset(tp for tp, cut in found.items() if cut == "unknown")
