"""The figures of a flow while it runs, in one place.

Each figure has one writer: the loop, the reports or the checkpoint rounds, each in its own thread.
A value is never changed: a new one takes the place of the old one as a whole. So a reader needs no
lock and no call to the JVM, holds nobody up, and what it has read does not change under it.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from replication.errors import ReplicationError
from replication.figures.histogram import Histogram
from replication.figures.lag import steady
from replication.groups.positions import GroupPosition
from replication.model import Mode, Position, TopicPartition
from replication.offsets.pending import Copied
from replication.offsets.runs import OffsetRun
from replication.spark.mode import Reader, Reading
from replication.topics.topic_plan import TopicPlan

if TYPE_CHECKING:
    from replication.config.limits import Limit

Activity = Literal["starting", "replicating", "waiting", "paused", "ended"]
"""What the loop of a flow does: `waiting` is for a cluster, or before another attempt, `paused` is
for an operator, who has paused all of it."""

TopicOrPartition = str | TopicPartition
"""An upstream topic, or one of its partitions."""


def topic_of(part: TopicOrPartition) -> str:
    return part if isinstance(part, str) else part.topic


Told = tuple[str, str]
"""What is wrong with a topic, in a sentence, and the command that mends it."""


@dataclass(frozen=True, slots=True)
class State:
    """What the loop does since a time, in epoch seconds, and why it waits; "" if it does not."""

    activity: Activity = "starting"
    since: float = field(default_factory=time.time)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Copying:
    """What is copied. Partitions and topics are upstream.

    Args:
        mode: How the queries run; None before the first.
        generations: The numbers of those that run.
        tasks: How many read for them, by their Kafka source.
        topics: What they replicate: upstream topic -> remote topic.
        wanted: All partitions that the flow is to copy, as its topics were looked at last: what is
            paused, set aside or without a leader as well.
        positions: The next offset of each partition on the source that the target has not
            acknowledged, by this process or the offset map, of whatever was ever copied.
        records: How many records of each topic the target has acknowledged since the process began.
        bytes: Of their keys and values. A topic that no executor reports is absent.
        newest_ms: The newest timestamp of the records of each topic; the same.
        source_ms: The newest timestamp that records of each partition have on the source.
        newest_at: When the last of them was noticed, in `steady` time; None if there is none.
        restarts: Failures after which the loop has tried again.
        map_written_at: When the offset map was last written, the same; None if it was not yet.
        looked_at: When the loop last took what executors have reported, by the process's clock.
        first: The generation in which a partition began that had nothing on the target, or that an
            operator had moved back.
        paused: The partitions that operators have paused.
        paused_topics: Their topics, as in *topics*.
    """

    mode: Mode | None = None
    generations: tuple[int, ...] = ()
    tasks: Mapping[Reader, int] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    wanted: frozenset[TopicPartition] = frozenset()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    records: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    newest_ms: Mapping[str, int] = field(default_factory=dict)
    source_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    newest_at: float | None = None
    restarts: int = 0
    map_written_at: float | None = None
    looked_at: float = 0.0
    first: Mapping[TopicPartition, int] = field(default_factory=dict)
    paused: frozenset[TopicPartition] = frozenset()
    paused_topics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupRound:
    """The last round of checkpoints that reached its end.

    Args:
        at: When, in `steady` time; None before the first.
        positions: Of each group in each partition.
        ends: Where the logs of these partitions ended when their commits were read.
        emitted: Checkpoints since the process began.
        blocked: The groups that were not moved, because they are active on the target; None if none
            was to be moved.
        waited: From the first sight of a commit to the acknowledgement of its checkpoint.
    """

    at: float | None = None
    positions: tuple[GroupPosition, ...] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    emitted: int = 0
    blocked: frozenset[str] | None = None
    waited: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of a flow, as of one look at its board.

    Args:
        at: The `steady` time of the look.
        state: What the loop does.
        copying: What is copied.
        aside: What is set aside, and why.
        round: The last round of checkpoints.
        gone: What became of topics that were deleted, or created again, and are not copied since.
    """

    at: float
    state: State
    copying: Copying
    aside: Mapping[TopicOrPartition, ReplicationError]
    round: GroupRound
    gone: Mapping[str, Told] = field(default_factory=dict)


class FlowMetrics:
    """The figures of one flow; one for each flow of the process, from its start to its end.

    Attributes:
        turned_at: When the loop turned last, by the process's own clock; None while it does what
            may take long, so that nobody expects it to turn.
        ends: Where logs of the source ended when they were last looked at; empty if nobody looks.
        losses: Why the target does not keep what the source keeps, by topic.
        gone: What became of topics that were deleted, or created again, and are not copied since.
        limits: The limits in force, as the executors were told last; None if they never were.
        told_limits: Those of them that cover a running topic, in the order of the executors' JVM.
    """

    def __init__(self) -> None:
        self._state = State()
        self._copying = Copying()
        self._aside: Mapping[TopicOrPartition, ReplicationError] = {}
        self._round = GroupRound()
        self._counted: dict[TopicPartition, Position] = {}  # what follows is not counted yet
        self.turned_at: float | None = None
        self.ends: Mapping[TopicPartition, int] = {}
        self.losses: Mapping[str, Told] = {}
        self.gone: Mapping[str, Told] = {}
        self.limits: tuple[Limit, ...] | None = None
        self.told_limits: tuple[Limit, ...] = ()
        self._said = set[str]()

    def look(self) -> Figures:
        """Returns the figures as they are now; for any thread."""
        return Figures(steady(), self._state, self._copying, self._aside, self._round, self.gone)

    def turn(self) -> None:
        """Notes that the loop turns, and will do so again in a moment."""
        self.turned_at = time.monotonic()

    def rest(self) -> None:
        """Notes that the loop does what may take long."""
        self.turned_at = None

    def turn_to(self, activity: Activity, reason: str = "") -> None:
        """Notes that the loop does something else now, which may take long."""
        self.rest()
        if (activity, reason) != (self._state.activity, self._state.reason):
            self._state = State(activity, reason=reason)

    def have_nothing(self, *, is_paused: bool, held: Sequence[str] = ()) -> None:
        """Notes that there is nothing to copy now: it is all paused, or no topic matches.

        Whoever sees the flow from another host learns which operations *held* it.
        """
        if is_paused:
            self.turn_to("paused", f"held by {', '.join(held)}" if held else "")
        else:
            self.turn_to("waiting", "no topic matches")

    def begin(
        self, number: int, mode: Mode, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
    ) -> None:
        """Notes that the loop starts generation *number* of *plan*, at *positions*."""
        old = self._copying
        starts = {tp: positions[tp].upstream for tp in plan.partitions}
        first = {tp: number for tp in starts if not positions[tp].downstream}
        self._copying = replace(
            old,
            mode=mode,
            generations=(*old.generations, number),
            topics={**old.topics, **plan.topics},
            positions={**old.positions, **starts},
            first={**old.first, **first},
        )

    def repeat(self, positions: Mapping[TopicPartition, int], number: int) -> None:
        """Notes that generation *number* copies partitions again from *positions* on.

        At once, or a look would find them where they were, and caught up.
        """
        old = self._copying
        self._copying = replace(
            old,
            positions={**old.positions, **positions},
            first={**old.first, **dict.fromkeys(positions, number)},
        )

    def place(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Notes the next source offsets of partitions that do not run; None where it is unknown."""
        old = self._copying
        known = {tp: at for tp, at in {**old.positions, **positions}.items() if at is not None}
        self._copying = replace(old, positions=known)

    def want(self, plan: TopicPlan, waiting: Collection[TopicOrPartition]) -> None:
        """Notes what the flow is to copy: all of *plan*, and of topics *waiting* beside it."""
        kept = (tp for tp in self._copying.wanted if tp.topic in waiting)
        wanted = frozenset((*plan.partitions, *plan.leaderless, *plan.paused, *kept))
        self._copying = replace(self._copying, wanted=wanted)

    def pause(self, partitions: Iterable[TopicPartition], topics: Mapping[str, str]) -> None:
        """Notes which partitions are paused from now on, and which are their remote topics."""
        self._copying = replace(self._copying, paused=frozenset(partitions), paused_topics=topics)

    def reads(self, readings: Iterable[Reading]) -> None:
        """Notes how the running generations read."""
        tasks = Counter[Reader]()
        for reading in readings:
            tasks[reading.source] += reading.tasks
        self._copying = replace(self._copying, tasks=tasks)

    def add(self, runs: Mapping[TopicPartition, Sequence[OffsetRun]]) -> None:
        """Adds new *runs*: acknowledged by the target, or offsets that a partition moved over."""
        counts = {tp: sum(run.count for run in found) for tp, found in runs.items()}
        self._count(counts, {tp: found[-1].end for tp, found in runs.items()})

    def _count(
        self, counts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Position]
    ) -> None:
        if not ends:
            return
        old, by_topic = self._copying, Counter[str]()
        for tp, count in counts.items():
            by_topic[tp.topic] += count
        copied = {topic: old.records.get(topic, 0) + n for topic, n in by_topic.items() if n}
        self._counted |= ends
        self._copying = replace(
            old,
            positions={**old.positions, **{tp: end.upstream for tp, end in ends.items()}},
            records={**old.records, **copied},
            newest_at=steady() if copied else old.newest_at,
        )

    def add_single(self, tp: TopicPartition, end: Position) -> None:
        """Adds a record of *tp* that was copied by itself; the partition resumes at *end*."""
        self._count({tp: 1}, {tp: end})

    def own(self) -> None:
        """Notes that this process owns the flow from now on: what was copied before is not its."""
        self._counted = {}

    def settle(
        self,
        positions: Mapping[TopicPartition, Position],
        found: Mapping[TopicPartition, Sequence[OffsetRun]],
    ) -> None:
        """Notes where partitions resume, and adds what nobody has reported before.

        Records that an executor or a query without reports could not tell of, or that were tried
        alone, are *found* in the target's log.

        Args:
            positions: Where they resume.
            found: What of the partitions was found, as far as this flow has written it.
        """
        counts = {
            tp: sum(_beyond(run, self._counted[tp]) for run in runs)
            for tp, runs in found.items()
            if tp in self._counted
        }
        self._count(counts, {tp: positions[tp] for tp, count in counts.items() if count})
        self._counted |= positions

    def add_copied(self, reports: Sequence[tuple[TopicPartition, Copied]]) -> None:
        """Adds what executors have reported of acknowledged records of some partitions."""
        if not reports:
            return
        old = self._copying
        sizes, newest, source = dict(old.bytes), dict(old.newest_ms), dict(old.source_ms)
        for tp, copied in reports:
            sizes[tp.topic] = sizes.get(tp.topic, 0) + copied.bytes
            newest[tp.topic] = max(copied.newest_ms, newest.get(tp.topic, -1))
            if copied.source_ms >= 0:
                source[tp] = max(copied.source_ms, source.get(tp, -1))
        self._copying = replace(old, bytes=sizes, newest_ms=newest, source_ms=source)

    def saw_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Notes where logs of the source end, its stable ends if the flow reads committed."""
        self.ends = ends

    def note_losses(self, topics: Collection[str], losses: Mapping[str, Told]) -> list[str]:
        """Notes for which of *topics* the target keeps less, and why; returns what is news."""
        news = [text for text, _ in losses.values() if text not in self._said]
        self._said.update(news)
        others = {topic: told for topic, told in self.losses.items() if topic not in topics}
        self.losses = {**others, **losses}
        return news

    def lose(self, gone: Mapping[str, Told]) -> None:
        """Notes what became of topics that are *gone*, until they are found again."""
        self.gone = {**self.gone, **gone}

    def find_again(self, topics: Collection[str]) -> None:
        """Notes that *topics* are copied, set aside or left out by now, as the loop says."""
        self.gone = {topic: told for topic, told in self.gone.items() if topic not in topics}

    def looked(self) -> None:
        """Notes that the loop has just taken all that executors have reported."""
        self._copying = replace(self._copying, looked_at=time.monotonic())

    def leave(self, number: int, topics: Collection[str]) -> None:
        """Notes that generation *number* has ended, and that no other one copies *topics*."""
        old = self._copying
        self._copying = replace(
            old,
            generations=tuple(each for each in old.generations if each != number),
            topics={name: copy for name, copy in old.topics.items() if name not in topics},
        )

    def end(self) -> None:
        """Notes that the loop has ended all generations; positions and sums stay."""
        self._copying = replace(self._copying, generations=(), tasks={}, topics={})

    def count_restart(self) -> None:
        """Counts one more attempt of the loop after a failure."""
        self._copying = replace(self._copying, restarts=self._copying.restarts + 1)

    def map_written(self) -> None:
        """Notes that the loop has written the offset map."""
        self._copying = replace(self._copying, map_written_at=steady())

    def set_aside(self, errors: Mapping[TopicOrPartition, ReplicationError]) -> None:
        """Notes that the loop leaves the parts of *errors* out for now."""
        self._aside = {**self._aside, **errors}

    def take_back(self, parts: Iterable[TopicOrPartition]) -> None:
        """Notes that *parts* are not left out any more: they are replicated, or gone."""
        gone = set(parts)
        self._aside = {k: v for k, v in self._aside.items() if k not in gone}

    def end_round(
        self, positions: Iterable[GroupPosition], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Notes that a round has translated the groups' *positions*, read when logs had *ends*."""
        self._round = replace(self._round, at=steady(), positions=tuple(positions), ends=ends)

    def note_blocked(self, groups: Iterable[str]) -> None:
        """Notes which groups group sync leaves alone, because they are active on the target."""
        self._round = replace(self._round, blocked=frozenset(groups))

    def count_checkpoints(self, waited: Sequence[float]) -> None:
        """Counts the checkpoints that a round has emitted, by how long each commit has waited."""
        emitted, found = self._round.emitted + len(waited), self._round.waited
        self._round = replace(self._round, emitted=emitted, waited=found.with_durations(waited))


def _beyond(run: OffsetRun, position: Position) -> int:
    """Returns how many records of *run* are not before *position*, at most."""
    until = min(run.tgt_until - position.downstream, run.src_until - position.upstream)
    return min(run.count, max(0, until))
