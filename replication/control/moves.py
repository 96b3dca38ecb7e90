"""Positions that an operator moves: what is left out or copied again, before anything is done."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.moved_groups import MovedGroup, MovedMap, moved_groups
from replication.control.record_counts import counted_records
from replication.control.running import running_now
from replication.control.starts import (
    StoredMap,
    find_starts,
    open_clusters,
    stored_map,
    with_created,
)
from replication.control.written import open_written
from replication.errors import NoAnswerError, SetupError
from replication.model import TopicPartition
from replication.offsets.goals import Goal, Place, offset_of_goal
from replication.offsets.moved import MovedPosition, Moving, OwnPosition, move
from replication.positions.find import find_by_spans
from replication.positions.moves import AskedPositions, own_position
from replication.positions.sides import AskedSides, FlowSides, compared
from replication.positions.spans import LogSpans
from replication.state.move_requests import MoveRequest
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """What a move does to one partition.

    Args:
        request: For the process that runs the flow.
        moved: Where it goes on, and where it would have gone on.
        records: How many records are left out or copied again; None if they were not counted.
        replaces: A request about the same partition that waits; it does not count any more.
    """

    request: MoveRequest
    moved: MovedPosition
    records: int | None
    replaces: MoveRequest | None = None

    def document(self) -> dict[str, Any]:
        """Returns what a command prints as JSON."""
        moved, waiting = self.moved, self.replaces
        return {
            **self.request.partition._asdict(),
            "from": moved.before.position.upstream,
            "to": moved.position.upstream,
            "target_offset": moved.position.downstream,
            "left_out": moved.left_out,
            "copied_again": moved.copied_again,
            "records": self.records,
            "replaces": None if waiting is None else waiting.moving.to,
        }


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What the moves of a command do.

    Args:
        moves: Of each partition that moves.
        stay: Partitions that are there already.
        groups: The groups whose translation changes.
        problems: What is not known, one line each.
    """

    moves: tuple[PlannedMove, ...]
    stay: tuple[TopicPartition, ...] = ()
    groups: tuple[MovedGroup, ...] = ()
    problems: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns what a command prints as JSON."""
        return {
            "partitions": [each.document() for each in self.moves],
            "unchanged": [str(tp) for tp in self.stay],
            "groups": [group.document() for group in self.groups],
            "problems": list(self.problems),
        }


def chosen_goals(
    plan: TopicPlan, topics: Iterable[str], partition: int | None, goal: Goal
) -> dict[TopicPartition, Goal]:
    """Returns *goal* for a partition of *topics*, or for all of theirs; what is missing stays."""
    there = {*plan.partitions, *plan.leaderless}
    chosen: dict[TopicPartition, Goal] = {}
    for topic in topics:
        some = {tp for tp in there if tp.topic == topic and partition in {None, tp.partition}}
        chosen |= dict.fromkeys(some or {TopicPartition(topic, partition or 0)}, goal)
    return chosen


def planned_moves(
    mirror: MirrorConfig,
    config: FlowConfig,
    choose: Callable[[TopicPlan], Mapping[TopicPartition, Goal]],
    *,
    may_start_spark: bool = True,
) -> MovePlan:
    """Returns what becomes of the partitions of *config*'s flow that *choose* gives goals.

    Args:
        mirror: The file.
        config: The flow.
        choose: Is given the flow's topics.
        may_start_spark: Whether records may be counted, and compared where their place is in doubt.

    Raises:
        LeaseError: The flow copies one of these partitions now.
        StateError: The state directory cannot be read.
        NoAnswerError, IdentityError, ClusterError, SetupError: As `plan_moves` says.
    """
    running = running_now(mirror, config)
    config = running.steering.overlaid(config)
    with open_written(mirror, config) as (state, doubts), open_clusters(config) as clusters:
        stored = stored_map(mirror.access, config, state)
        topics = look(config, *clusters)
        goals = choose(topics)
        running.refuse(goals.keys())
        kind = AskedSides if may_start_spark else _SparklessSides
        with kind(config, clusters) as sides:
            plan = plan_moves(sides, stored, topics, goals)
    return replace(plan, problems=(*doubts, *plan.problems))


class _SparklessSides(AskedSides):
    """The sides of a flow for a process that must not start Spark."""

    @property
    def spark(self) -> NoReturn:
        """Raises SetupError: the command line may start Spark."""
        raise SetupError("this needs Spark: ask by the command move-position")


def plan_moves(
    sides: FlowSides, stored: StoredMap, plan: TopicPlan, goals: Mapping[TopicPartition, Goal]
) -> MovePlan:
    """Returns what becomes of partitions that are to go on at *goals*.

    Args:
        sides: The flow, which does not copy these partitions now.
        stored: What the state directory says.
        plan: The flow's topics.
        goals: By upstream partition.

    Raises:
        NoAnswerError: A partition cannot be moved, or not to its goal; each is named.
        IdentityError: The state is of other clusters.
        ClusterError: A cluster does not answer.
        SetupError: Records must be compared, and Spark does not start here.
    """
    plan = _checked(plan, goals.keys())
    spans, own = _own_positions(sides, stored, plan, goals.keys())
    asked = _asked(sides, plan, (spans, own), goals)
    moved = _moved(asked, plan, spans, own)
    before = {tp: at.position.upstream for tp, at in own.items()}
    moving = {tp: at for tp, at in moved.items() if at.position.upstream != before[tp]}
    maps, unknown = _maps(sides, stored, plan, moving)
    groups, unread = moved_groups(sides.config, sides.source, maps) if maps else ((), ())
    moves = tuple(
        PlannedMove(MoveRequest(tp, asked[tp]), at, maps[tp].records, stored.moves.get(tp))
        for tp, at in sorted(moving.items())
    )
    stay = tuple(sorted(moved.keys() - moving.keys()))
    return MovePlan(moves, stay, groups, (*unknown, *unread))


def _checked(plan: TopicPlan, partitions: Collection[TopicPartition]) -> TopicPlan:
    """Returns *plan* for the topics of *partitions*, all of which can be asked."""
    topics = {tp.topic for tp in partitions}
    problems = [text for topic in sorted(topics) if (text := _no_topic(topic, plan))]
    there = {*plan.partitions, *plan.leaderless}
    for tp in sorted(partitions):
        if tp in plan.leaderless:
            problems.append(f"{tp}: no broker leads it on one side; start the brokers")
        elif tp not in there and tp.topic in plan.topics:
            problems.append(f"{tp}: there is no such partition")
    _refuse(problems)
    return plan.without(plan.topics.keys() - topics)


def _no_topic(topic: str, plan: TopicPlan) -> str:
    """Returns why *topic* has no positions; "" if it has."""
    if topic in plan.topics:
        return ""
    reason = plan.rejected.get(topic, "it is not one of the flow's topics: check the name")
    return f"topic {topic}: {reason}"


def _own_positions(
    sides: FlowSides, stored: StoredMap, plan: TopicPlan, wanted: Collection[TopicPartition]
) -> tuple[LogSpans, dict[TopicPartition, OwnPosition]]:
    """Returns the spans of *plan*'s logs, and where the *wanted* partitions go on by themselves."""
    config = sides.config
    spans, _ = find_starts(config, plan, (sides.source, sides.target), stored)
    accepted = AskedPositions(stored.accepted)
    with compared(config.flow):
        found = find_by_spans(sides, with_created(plan), stored, spans, accepted)
    refused = {tp.topic: (tp, at) for tp, at in found.refused.items()}
    own: dict[TopicPartition, OwnPosition] = {}
    problems = []
    for tp in sorted(wanted):
        position = own_position(found.verdicts.get(tp))
        if position is not None:
            own[tp] = position
        elif tp.topic in refused:
            other, refusal = refused[tp.topic]
            problems.append(f"{tp} cannot go on by itself: {other}: {refusal.text}; use accept")
        else:
            problems.append(
                f"{tp}: the flow must find or decide first where it goes on, as plan shows: let it "
                "run once, with --mode drain for example"
            )
    _refuse(problems)
    return spans, own


def _asked(
    sides: FlowSides,
    plan: TopicPlan,
    found: tuple[LogSpans, Mapping[TopicPartition, OwnPosition]],
    goals: Mapping[TopicPartition, Goal],
) -> dict[TopicPartition, Moving]:
    """Returns the moves to *goals* of partitions with these spans and positions."""
    spans, own = found
    times = {tp: goal.value for tp, goal in goals.items() if goal.kind == "time"}
    at_times = sides.source.offsets_for_time(times) if times else {}
    asked = {}
    for tp, goal in goals.items():
        reset = sides.config.auto_offset_reset
        place = Place(own[tp].position.upstream, spans.source_ends[tp], at_times.get(tp), reset)
        to = offset_of_goal(goal, place)
        asked[tp] = Moving(to, own[tp].seen, plan.source_ids[tp.topic])
    return asked


def _moved(
    asked: Mapping[TopicPartition, Moving],
    plan: TopicPlan,
    spans: LogSpans,
    own: Mapping[TopicPartition, OwnPosition],
) -> dict[TopicPartition, MovedPosition]:
    """Returns what *asked* makes of partitions with these spans and positions."""
    moved, problems = {}, []
    for tp, moving in sorted(asked.items()):
        source, topic_id = spans.source(tp), plan.source_ids[tp.topic]
        result = move(moving, own[tp], source, spans.target_ends[tp], topic_id)
        if isinstance(result, MovedPosition):
            moved[tp] = result
        else:
            problems.append(f"{tp}: {result}")
    _refuse(problems)
    return moved


def _maps(
    sides: FlowSides,
    stored: StoredMap,
    plan: TopicPlan,
    moving: Mapping[TopicPartition, MovedPosition],
) -> tuple[dict[TopicPartition, MovedMap], tuple[str, ...]]:
    """Returns the maps of partitions that move, and a line if their records cannot be counted."""
    found = stored.maps(dict.fromkeys(moving, 0))
    runs = {
        tp: found[tp].offsets.runs
        for tp in moving
        if tp in found and found[tp].topic_id == plan.source_ids[tp.topic]
    }
    spans = {tp: span for tp, at in moving.items() if (span := at.left_out or at.copied_again)}
    unknown: tuple[str, ...] = ()
    records = dict.fromkeys(moving.keys() - spans.keys(), 0)
    try:
        records |= counted_records(sides, spans, runs)
    except SetupError as error:
        unknown = (f"records are not counted: {error}",)
    maps = {tp: MovedMap(runs.get(tp, ()), at, records.get(tp)) for tp, at in moving.items()}
    return maps, unknown


def _refuse(problems: Collection[str]) -> None:
    if problems:
        raise NoAnswerError("".join(["nothing is moved:", *(f"\n  - {text}" for text in problems)]))
