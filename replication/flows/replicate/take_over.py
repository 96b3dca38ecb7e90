"""Takes over the positions that MirrorMaker 2 has stored on the target.

They are older than what it has copied, by a minute at most after a crash, so they count only where
the records on the target do not tell where to resume.
"""

from collections.abc import Mapping

from replication.flows.context import FlowContext
from replication.flows.replicate.place import Match
from replication.kafka.reader import KafkaRecord, Reader
from replication.log import Log
from replication.mm2.connect_offsets import stored_position
from replication.model import Position, TopicPartition

log = Log(__name__)


def take_over(
    context: FlowContext, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Match]:
    """Where MirrorMaker 2 would have gone on, for those partitions of which it says so.

    Args:
        context: The flow; its configuration names the topic of the positions.
        ends: Upstream partition -> log end of the remote partition.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    if not config.takeover_topic or not ends:
        return {}
    positions = read_positions(context)
    earliest = context.source.earliest(ends.keys() & positions.keys())
    log_ends = context.source.log_ends(earliest, config.isolation)
    found: dict[TopicPartition, Match] = {}
    for tp, first in earliest.items():
        following = positions[tp]
        if first <= following <= log_ends.get(tp, 0):
            found[tp] = Match(
                Position(following, ends[tp]),
                f"{config.takeover_topic} says that MirrorMaker 2 has copied {tp} up to offset "
                f"{following - 1}, resuming after it",
            )
        else:
            text = f"{tp} has no offset {following} on {config.flow.source}: not used"
            log.warning("takeover_position_gone", flow=config.flow, text=text)
    return found


def read_positions(context: FlowContext) -> dict[TopicPartition, int]:
    """The next offset of each partition of the source, as MirrorMaker 2 has stored it."""
    config, topic = context.config, context.config.takeover_topic
    described = context.target.describe([topic])
    if topic not in described:
        text = f"no topic {topic} on {config.flow.target}: no position is taken over"
        log.warning("takeover_topic_missing", flow=config.flow, text=text)
        return {}
    partitions = [TopicPartition(topic, number) for number in range(described[topic].partitions)]
    starts = context.target.earliest(partitions)
    ends = context.target.log_ends(partitions, "read_committed")
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
