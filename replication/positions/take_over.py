"""Takes over the positions that MirrorMaker 2 has stored on the target.

They are older than what it has copied, by a minute at most after a crash, so they count only where
the records on the target do not tell where to resume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import Reader
from replication.mm2.connect_offsets import stored_position
from replication.model import Position, TopicPartition
from replication.positions.place import Match


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Where MirrorMaker 2 would have gone on.

    Args:
        found: By upstream partition; partitions that it does not name are absent.
        warnings: Why a position, or all of them, cannot be used, one line each.
    """

    found: Mapping[TopicPartition, Match] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def take_over(
    config: FlowConfig,
    clusters: tuple[Cluster, Cluster],
    ends: Mapping[TopicPartition, int],
) -> TakenOver:
    """Finds where MirrorMaker 2 would have gone on in the partitions of *ends*.

    Args:
        config: The flow; it names the topic of the positions.
        clusters: Source and target.
        ends: Upstream partition -> log end of the remote partition.

    Raises:
        ClusterError: A cluster does not answer.
    """
    source, target = clusters
    topic, flow = config.takeover_topic, config.flow
    if not topic or not ends:
        return TakenOver()
    positions = read_positions(config, target)
    if positions is None:
        text = f"{flow.target} shows no topic {topic}: no position of MirrorMaker 2 is taken over"
        return TakenOver(warnings=(text,))
    earliest = source.earliest(ends.keys() & positions.keys())
    log_ends = source.log_ends(earliest, config.isolation)
    found: dict[TopicPartition, Match] = {}
    warnings = []
    for tp, first in sorted(earliest.items()):
        following = positions[tp]
        if first <= following <= log_ends.get(tp, 0):
            found[tp] = Match(
                Position(following, ends[tp]),
                f"according to {topic}, MirrorMaker 2 copied {tp} up to offset {following - 1}; "
                "resuming after it",
                is_taken_over=True,
            )
        else:
            end = log_ends.get(tp, first)
            warnings.append(
                f"according to {topic}, MirrorMaker 2 copied {tp} up to offset {following - 1}, "
                f"but {flow.source} has offsets {first} to {end}: not taken over"
            )
    return TakenOver(found, tuple(warnings))


def advice(config: FlowConfig, tp: TopicPartition) -> str:
    """Advises an operator where the target's records do not tell where to resume *tp*."""
    flow, topic = config.flow, config.takeover_topic
    if topic:
        return f"{topic}, replication.takeover.topic, has no place of {tp} that can be used either"
    return (
        "If MirrorMaker 2 wrote them, write replication.takeover.topic, the name of the topic on "
        f"{flow.target} with its positions, such as mm2-offsets.{flow.source}.internal or a "
        "Connect cluster's offset.storage.topic: it gives the exact place"
    )


def read_positions(config: FlowConfig, target: Cluster) -> dict[TopicPartition, int] | None:
    """Reads the next offset of each partition of the source, as MirrorMaker 2 has stored it.

    None if the topic of the positions does not exist.
    """
    topic = config.takeover_topic
    described = target.describe([topic])
    if topic not in described:
        return None
    partitions = [TopicPartition(topic, number) for number in range(described[topic].partitions)]
    starts = target.earliest(partitions)
    ends = target.log_ends(partitions, "read_committed")
    positions: dict[TopicPartition, int] = {}

    def take(_: TopicPartition, record: KafkaRecord) -> bool:
        found = stored_position(config.flow.source, record.key, record.value)
        if found is not None:
            tp, following = found
            if following is None:
                positions.pop(tp, None)
            else:
                positions[tp] = following
        return False

    with Reader(config.target.consumer, "read_committed") as reader:
        reader.visit({tp: (starts.get(tp, 0), ends.get(tp, 0)) for tp in partitions}, take)
    return positions
