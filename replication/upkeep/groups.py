"""Translates the source groups' committed offsets with the offset map."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.groups.positions import GroupPartition, GroupPosition
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.internal_topic import InternalTopic
from replication.log import Log
from replication.mm2.wire import Checkpoint, WireError
from replication.model import Committed, Flow, TopicPartition
from replication.offsets.map import NoAnswer, TopicMap, Translation
from replication.topics.selection import remote_topics

log = Log(__name__)

NEVER_REPLICATED = NoAnswer("nothing replicated", None)
CREATED_AGAIN = NoAnswer("topic created again", None)
NOT_DESCRIBED = NoAnswer("topic not described", None)

MapsOf = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, TopicMap]]
"""The offset maps of these partitions, as far as they concern these offsets and later ones."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The groups' positions, sorted by group, and how far each upstream partition is replicated.

    Args:
        positions: Of topics that are those of the offset map.
        untranslated: Of other topics, which have no answer.
        replicated_until: By upstream partition.
    """

    positions: list[GroupPosition]
    untranslated: list[GroupPosition]
    replicated_until: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """A translation and what it was made from."""

    committed: Committed
    topic_map: TopicMap | None
    position: GroupPosition


class Translator:
    """Translates round after round; only what changed since the last round costs anything.

    Args:
        flow: Whose groups.
        source: Its source.
        target: Its target: where its logs start is asked for groups that no run reaches.
        maps_of: The flow's offset maps.
    """

    def __init__(self, flow: Flow, source: Cluster, target: Cluster, maps_of: MapsOf) -> None:
        self._flow = flow
        self.log = log.bind(flow)
        self._source = source
        self._target = target
        self._maps_of = maps_of
        self._known: dict[GroupPartition, _Known] = {}
        self._recreated: set[str] = set()
        self._hidden: set[str] = set()

    def translate(
        self, config: FlowConfig, committed: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> Translated:
        """Translates the *committed* offsets of the source's groups, by group and partition.

        Args:
            config: The flow, as it is in force now.
            committed: By group.

        Raises:
            ClusterError: The source does not answer.
            StateError: The offset map cannot be read.
        """
        topics = {tp.topic for offsets in committed.values() for tp in offsets}
        remote = remote_topics(config, topics)
        wanted = [
            (group, tp, position)
            for group, offsets in sorted(committed.items())
            for tp, position in sorted(offsets.items())
            if tp.topic in remote
        ]
        least: dict[TopicPartition, int] = {}
        for _, tp, position in wanted:
            least[tp] = min(position.offset, least.get(tp, position.offset))
        maps = self._maps_of(least) if least else {}
        copies = {
            TopicPartition(remote[tp.topic], tp.partition): tp
            for tp, topic_map in maps.items()
            if tp in least and least[tp] < topic_map.offsets.starts_at
        }
        found: dict[TopicPartition, int] = {}
        with suppress(ClusterError):  # its groups have no answer then
            found = self._target.earliest(copies) if copies else {}
        starts = {copies[copy]: start for copy, start in found.items()}
        known = {
            (group, tp): self._translated(
                group,
                TopicPartition(remote[tp.topic], tp.partition),
                (tp, position),
                maps.get(tp),
                starts.get(tp),
            )
            for group, tp, position in wanted
        }
        self._find_recreated(known)
        self._known = known
        unsafe = dict.fromkeys(self._recreated, CREATED_AGAIN)
        unsafe |= dict.fromkeys(self._hidden, NOT_DESCRIBED)
        return Translated(
            [found.position for (_, tp), found in known.items() if tp.topic not in unsafe],
            [
                replace(found.position, answer=unsafe[tp.topic])
                for (_, tp), found in known.items()
                if tp.topic in unsafe
            ],
            {tp: topic_map.offsets.replicated_until for tp, topic_map in maps.items()},
        )

    def _translated(
        self,
        group: str,
        remote: TopicPartition,
        found: tuple[TopicPartition, Committed],
        topic_map: TopicMap | None,
        target_start: int | None,
    ) -> _Known:
        upstream, committed = found
        known = self._known.get((group, upstream))
        is_before = topic_map is not None and committed.offset < topic_map.offsets.starts_at
        is_same = known and known.committed == committed and known.topic_map is topic_map
        if known and is_same and not is_before:
            return known
        answer: Translation = NEVER_REPLICATED
        empty = 0
        if topic_map:
            answer = topic_map.offsets.translate(committed.offset, target_start)
            empty = topic_map.offsets.empty_until(committed.offset)
        position = GroupPosition(group, upstream, remote, committed, answer, empty)
        if known and is_same and known.position == position:
            return known
        return _Known(committed, topic_map, position)

    def _find_recreated(self, known: Mapping[GroupPartition, _Known]) -> None:
        """Finds the topics whose map belongs to a deleted topic: its offsets mean other records.

        Describes only the topics where a position changed. Of a topic that the source rejects
        nobody knows whether it was recreated; the others are translated.
        """
        changed = {
            tp.topic: newest.topic_map.topic_id
            for (group, tp), newest in known.items()
            if newest.topic_map
            and (newest is not self._known.get((group, tp)) or tp.topic in self._hidden)
        }
        rejections = Rejections()
        living = rejections.call(self._source.describe, changed) if changed else {}
        for topic in sorted(rejections.texts.keys() - self._hidden):
            self.log.warning("groups_not_translated", topic=topic, text=rejections.texts[topic])
        self._hidden = set(rejections.texts)
        for topic, topic_id in sorted(changed.items()):
            if topic in self._hidden:
                continue
            if topic in living and living[topic].topic_id == topic_id:
                self._recreated.discard(topic)
            elif topic not in self._recreated:
                self._recreated.add(topic)
                self.log.warning(
                    "groups_not_translated",
                    topic=topic,
                    text=f"topic {topic} on {self._flow.source} was deleted or recreated",
                )


def translate_groups(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    maps_of: MapsOf,
) -> Translated:
    """Translates a single question by `Translator.translate`."""
    return Translator(config.flow, source, target, maps_of).translate(config, committed)


def checkpoints_topic(target: Cluster, config: FlowConfig) -> InternalTopic:
    """Returns the flow's checkpoints topic. It is on the target, as MirrorMaker 2's is."""
    return InternalTopic(
        target,
        config.policy.checkpoints_topic(config.flow.source),
        producer=config.target.producer,
        consumer=config.target.consumer,
        replication_factor=config.groups.replication_factor,
    )


def read_checkpoints(topic: InternalTopic) -> dict[GroupPartition, Checkpoint]:
    """Reads the newest checkpoint of each group and remote partition.

    Records that are not checkpoints are skipped, as in MirrorMaker 2's reader.
    """
    newest: dict[GroupPartition, Checkpoint] = {}
    skipped = list[tuple[int, WireError]]()
    for record in topic.records():
        checkpoint = _decode(record)
        if isinstance(checkpoint, WireError):
            skipped.append((record.offset, checkpoint))
        else:
            newest[checkpoint.group, checkpoint.partition] = checkpoint
    if skipped:  # whoever writes one may write a million
        offset, first = skipped[0]
        more = f"; so are {len(skipped) - 1} more" if len(skipped) > 1 else ""
        log.warning("not_a_checkpoint", topic=topic.name, offset=offset, text=f"{first}{more}")
    return newest


def _decode(record: KafkaRecord) -> Checkpoint | WireError:
    try:
        found = Checkpoint.decode(record.key, record.value)
    except WireError as error:
        return error
    if min(found.partition.partition, found.upstream, found.downstream) < 0:
        return WireError("a checkpoint has a number below 0")
    return found
