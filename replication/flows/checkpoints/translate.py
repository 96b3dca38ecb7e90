"""Translates the source groups' committed offsets with the offset map."""

from collections.abc import Iterable, Mapping

from replication.config.tree import FlowConfig
from replication.flows.context import FlowContext
from replication.flows.recent_runs import MapsOf
from replication.groups.positions import GroupPosition
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.log import Log
from replication.model import Committed, TopicPartition
from replication.offsets.map import NoAnswer
from replication.state.offset_rows import TopicMap
from replication.state.offset_table import OffsetTable
from replication.topics.selection import remote_topics

log = Log(__name__)

NOTHING = NoAnswer("nothing replicated", None)


def group_positions(
    context: FlowContext, source: Groups, groups: Iterable[str]
) -> list[GroupPosition]:
    """The position of each of *groups* in each partition that the flow replicates.

    Raises:
        ClusterError: The source does not answer.
        StateError: The offset map cannot be read.
    """
    offsets = OffsetTable(context.tables, context.config.flow)

    def maps_of(least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        return context.recent.maps(least, offsets.maps)

    return translate_groups(context.config, context.source, source.committed(groups), maps_of)


def translate_groups(
    config: FlowConfig,
    source: Cluster,
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    maps_of: MapsOf,
) -> list[GroupPosition]:
    """Translates the *committed* offsets of the source's groups, by group and partition.

    Raises:
        ClusterError: The source does not answer.
        StateError: The offset map cannot be read.
    """
    topics = remote_topics(config, {tp.topic for offsets in committed.values() for tp in offsets})
    replicated = [
        (group, tp, offset)
        for group, offsets in sorted(committed.items())
        for tp, offset in sorted(offsets.items())
        if tp.topic in topics
    ]
    least: dict[TopicPartition, int] = {}
    for _, tp, position in replicated:
        least[tp] = min(position.offset, least.get(tp, position.offset))
    maps = _current_maps(config, source, maps_of(least) if least else {})
    return [
        GroupPosition(
            group,
            tp,
            TopicPartition(topics[tp.topic], tp.partition),
            position,
            maps[tp].offsets.translate(position.offset) if tp in maps else NOTHING,
        )
        for group, tp, position in replicated
    ]


def _current_maps(
    config: FlowConfig, source: Cluster, maps: Mapping[TopicPartition, TopicMap]
) -> dict[TopicPartition, TopicMap]:
    """The maps of topics with an unchanged id: offsets of a recreated topic mean other records."""
    if not maps:
        return {}
    topics = source.describe({tp.topic for tp in maps})
    current = {
        tp: topic_map
        for tp, topic_map in maps.items()
        if tp.topic in topics and topics[tp.topic].topic_id == topic_map.topic_id
    }
    for topic in sorted({tp.topic for tp in maps.keys() - current.keys()}):
        log.warning(
            "topic_recreated",
            flow=config.flow,
            topic=topic,
            text=f"deleted or created again on {config.flow.source}; its groups are not translated",
        )
    return current
