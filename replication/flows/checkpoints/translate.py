"""Where the source's groups stand on the target: one look at both, by the offset map."""

import logging
from collections.abc import Iterable

from replication.flows.context import FlowContext
from replication.groups.positions import GroupPosition
from replication.kafka.consumer_groups import Groups
from replication.model import TopicPartition
from replication.offsets.map import NoAnswer
from replication.state.offset_table import OffsetTable, TopicMap
from replication.topics.selection import remote_topics

log = logging.getLogger(__name__)

NOTHING = NoAnswer("nothing replicated", None)


def group_positions(
    context: FlowContext, source: Groups, groups: Iterable[str]
) -> list[GroupPosition]:
    """The position of each of *groups* in each partition that the flow's filter takes.

    Raises:
        ClusterError: The source does not answer.
        StateError: The offset map cannot be read.
    """
    config = context.config
    committed = source.committed(groups)
    topics = remote_topics(config, {tp.topic for its in committed.values() for tp in its})
    stands = [
        (group, tp, it)
        for group, its in sorted(committed.items())
        for tp, it in sorted(its.items())
        if tp.topic in topics
    ]
    least: dict[TopicPartition, int] = {}
    for _, tp, it in stands:
        least[tp] = min(it.offset, least.get(tp, it.offset))
    maps = _maps(context, least)
    return [
        GroupPosition(
            group,
            tp,
            TopicPartition(topics[tp.topic], tp.partition),
            it,
            maps[tp].offsets.translate(it.offset) if tp in maps else NOTHING,
        )
        for group, tp, it in stands
    ]


def _maps(context: FlowContext, least: dict[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
    """The maps of topics that are still the same: a recreated one's offsets mean other records."""
    config = context.config
    if not least:
        return {}
    maps = OffsetTable(context.tables, config.flow).maps(least)
    living = context.source.describe({tp.topic for tp in maps})
    same = {
        tp: it
        for tp, it in maps.items()
        if tp.topic in living and living[tp.topic].topic_id == it.topic_id
    }
    for topic in sorted({tp.topic for tp in maps.keys() - same.keys()}):
        log.warning(
            "flow=%s topic %s on %s was deleted or created again: its groups are not translated",
            config.flow, topic, config.flow.source,
        )  # fmt: skip
    return same
