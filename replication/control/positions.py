"""Where each partition of a flow stands: by the offset map, by the source, by the status topic."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from replication.config.changes import Overrides, fold
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import steerings
from replication.control.flow_answers import FlowAnswer, FlowAnswers
from replication.control.written import open_written
from replication.errors import ClusterError
from replication.figures.observation import ENDED
from replication.kafka.cluster import Cluster
from replication.model import Position, Topic, TopicPartition
from replication.offsets.moved import connect_offsets
from replication.state.requests import MoveRequest, open_channel, pending_moves
from replication.state.table_reader import OFFSET_RUNS, OLDEST_FIRST, TableRow
from replication.topics.selection import remote_topics

NEW = "new"
"""The state of a partition that has no position yet, of a flow that does not run."""


@dataclass(frozen=True, slots=True)
class FlowPosition:
    """Where one partition stands.

    Args:
        partition: Upstream.
        position: The last one in the offset map; None if there is none yet.
        end: The source's log end, as the flow's isolation level has it; None if it is not known.
        age: For how many seconds the map has said so; None without a position.
        state: What the partition does.
        reason: Why; may be empty.
        waiting: A move of it that waits for its use.
    """

    partition: TopicPartition
    position: Position | None
    end: int | None
    age: float | None
    state: str
    reason: str = ""
    waiting: MoveRequest | None = None

    @property
    def lag(self) -> int | None:
        """How many source offsets are not copied, by the map; None if that is not known."""
        if self.end is None or self.position is None:
            return None
        return max(0, self.end - self.position.upstream)

    def document(self) -> dict[str, Any]:
        """Returns what a command prints as JSON."""
        at, waiting = self.position, self.waiting
        return {
            **self.partition._asdict(),
            "source_offset": at and at.upstream,
            "target_offset": at and at.downstream,
            "source_log_end": self.end,
            "lag": self.lag,
            "map_age_seconds": None if self.age is None else round(self.age, 1),
            "state": self.state,
            "reason": self.reason or None,
            "moves_to": None if waiting is None else waiting.moving.to,
        }


@dataclass(frozen=True, slots=True)
class FlowPositions:
    """Where the partitions of a flow stand.

    Args:
        answer: How the flow is.
        source: The alias of its source.
        positions: Its partitions, sorted.
        problems: What is not known, one line each.
    """

    answer: FlowAnswer
    source: str
    positions: tuple[FlowPosition, ...]
    problems: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Returns what a command prints as JSON; ``offsets`` are as Kafka Connect shows them."""
        known = {one.partition: one.position for one in self.positions}
        upstream = {tp: at.upstream for tp, at in known.items() if at is not None}
        return {
            "flow": str(self.answer.flow),
            "state": self.answer.state,
            "positions": [one.document() for one in self.positions],
            "offsets": connect_offsets(self.source, upstream),
            "problems": list(self.problems),
        }


def flow_positions(
    mirror: MirrorConfig, config: FlowConfig, topics: Collection[str]
) -> FlowPositions:
    """Returns where the partitions of *topics* stand, or of all topics if there are none.

    A process that runs the flow is asked to write its offset map first.

    Raises:
        NoAnswerError: Nothing is known of the flow.
        StateError: The tables cannot be read.
    """
    steering = steerings(mirror.access, [config.flow])[config.flow]
    with open_written(mirror, config) as (state, doubts):
        rows = state.newest(OFFSET_RUNS, config.flow, ["topic", "partition"], OLDEST_FIRST)
    with FlowAnswers(mirror, [config]) as answers:
        (answer,) = answers.ask()
    stored = {TopicPartition(row["topic"], row["partition"]): row for row in rows}
    seen = _look_at_source(steering.overlaid(config), stored)
    with open_channel(mirror.access) as channel:
        moves = pending_moves(channel, config.flow)
    wanted = {tp for tp in (*stored, *seen.selected) if not topics or tp.topic in topics}
    now = datetime.now(timezone.utc)
    found = [
        _position(tp, stored.get(tp), seen, _said(tp, answer, steering), now, moves.get(tp))
        for tp in sorted(wanted)
    ]
    return FlowPositions(answer, config.source.alias, tuple(found), (*doubts, *seen.problems))


@dataclass(frozen=True, slots=True)
class _Source:
    """What the source says: topics of the map and selected ones, None if it did not answer."""

    topics: Mapping[str, Topic] | None
    selected: tuple[TopicPartition, ...] = ()
    ends: Mapping[TopicPartition, int] | None = None
    problems: tuple[str, ...] = ()


def _look_at_source(config: FlowConfig, stored: Iterable[TopicPartition]) -> _Source:
    try:
        with Cluster(config.source.alias, config.source.admin) as source:
            selected = remote_topics(config, source.topic_names())
            topics = source.describe({*selected, *(tp.topic for tp in stored)})
            partitions = [
                TopicPartition(name, number)
                for name, topic in topics.items()
                for number in range(topic.partitions)
            ]
            led = [tp for tp in partitions if tp.partition not in topics[tp.topic].leaderless]
            ends = source.log_ends(led, config.isolation)
    except ClusterError as error:
        return _Source(None, problems=(f"where the logs of the source end is not known: {error}",))
    return _Source(topics, tuple(tp for tp in partitions if tp.topic in selected), ends)


def _position(
    tp: TopicPartition,
    row: TableRow | None,
    seen: _Source,
    said: tuple[str, str],
    now: datetime,
    waiting: MoveRequest | None,
) -> FlowPosition:
    end = (seen.ends or {}).get(tp)
    state, reason = said
    if row is None:
        return FlowPosition(tp, None, end, None, state or NEW, reason, waiting)
    position = Position(row["src_until"], row["tgt_from"] + row["count"])
    if seen.topics is not None:
        topic = seen.topics.get(tp.topic)
        if topic is None or tp.partition >= topic.partitions:
            state, reason = "gone", "the source does not show it"
        elif topic.topic_id != row["topic_id"]:
            state, reason = "created again", "the position is of the deleted topic"
        elif tp not in seen.selected:
            state, reason = "not selected", "the lists of the flow leave the topic out"
    age = max(0.0, (now - row["written_at"]).total_seconds())
    return FlowPosition(tp, position, end, age, state, reason, waiting)


def _said(tp: TopicPartition, answer: FlowAnswer, steering: Overrides) -> tuple[str, str]:
    """Returns what a partition does: paused, what the owner said last, or what the flow does."""
    if steering.paused.covers(tp):
        pauses = (each for each in steering.in_force if fold([each]).paused.covers(tp))
        return "paused", "; ".join(f"change {each.number} by {each.origin}" for each in pauses)
    entry = answer.last.entry
    if entry is None or answer.state == "silent" or answer.state in ENDED:
        return answer.state, answer.why
    topic = next((one for one in entry.observed.topics if one.topic == tp.topic), None)
    if topic is None:
        return answer.state, ""
    part = next((one for one in topic.partitions if one.partition == tp.partition), None)
    return (part.state if part and not topic.reason else topic.state), topic.reason
