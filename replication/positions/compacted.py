"""Places copies of compacted topics whose last originals the source has removed since.

That is usual: a key that gets new records loses its old ones within seconds. What the source still
has of the older copies tells where to resume all the same, as `replication.spark.overwritten` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.model import TopicPartition
from replication.positions.sides import FlowSides
from replication.positions.verify import Placed, logs_of
from replication.spark.gaps import CopiedPair
from replication.spark.overwritten import newest_kept, overwritten

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What is known of copies whose last originals are gone.

    Args:
        placed: The newest record of each copy that the source still has.
        overwritten: Partitions where the source has none of the copies any more, but a newer record
            of each key, and the source's first offset.
    """

    placed: Mapping[TopicPartition, Placed] = field(default_factory=dict)
    overwritten: Mapping[TopicPartition, int] = field(default_factory=dict)


def search_compacted(
    context: FlowSides, remotes: Mapping[TopicPartition, TopicPartition]
) -> Compacted:
    """Searches the source for any record of *remotes*, which are given by upstream partition.

    Topics that the source does not compact are left out: that it lacks the last records of those
    says that somebody else wrote them, or that it has lost more than these.

    Raises:
        ClusterError: A cluster does not answer.
    """
    settings = Rejections().call(context.source.topic_config, {tp.topic for tp in remotes})
    policies = {topic: own.get("cleanup.policy") for topic, own in settings.items()}
    compacted = {name for name, own in policies.items() if own and "compact" in (own.value or "")}
    wanted = {tp: remote for tp, remote in remotes.items() if tp.topic in compacted}
    if not wanted:
        return Compacted()
    pairs = {pair.tp: pair for pair in _pairs(context, wanted)}
    spans = [span for pair in pairs.values() for span in (pair.originals, pair.copies)]
    offsets = sum(until - start for start, until in spans)
    flow = context.config.flow
    log.bind(flow).info("searching_compacted", partitions=len(pairs), offsets=offsets)
    logs = logs_of(context, wanted)
    kept = newest_kept(context.spark, logs, list(pairs.values()))
    rest = [pair for tp, pair in pairs.items() if tp not in kept]
    gone = overwritten(context.spark, logs, rest) if rest else set()
    return Compacted(
        {
            tp: Placed(wanted[tp], copy, original, newer)
            for tp, (copy, original, newer) in kept.items()
        },
        {tp: pairs[tp].originals[0] for tp in gone},
    )


def _pairs(
    context: FlowSides, remotes: Mapping[TopicPartition, TopicPartition]
) -> list[CopiedPair]:
    """Returns all that both sides have of the partitions that exist."""
    source, target = context.source, context.target
    ours = _spans(source.earliest(remotes), source.log_ends(remotes, context.config.isolation))
    copies = set(remotes.values())
    theirs = _spans(target.earliest(copies), target.log_ends(copies, "read_committed"))
    return [
        CopiedPair(tp, remote, ours[tp], theirs[remote])
        for tp, remote in remotes.items()
        if tp in ours and remote in theirs
    ]


def _spans(
    earliest: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    return {tp: (min(first, ends[tp]), ends[tp]) for tp, first in earliest.items() if tp in ends}
