"""Positions that an operator moves: what is left out or copied again, before anything is done."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from replication.config.changes import Overrides
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import read_all
from replication.control.flow_answers import FlowAnswers
from replication.control.groups import read_groups
from replication.control.lease_groups import LeaseGroups
from replication.control.starts import (
    StoredMap,
    find_starts,
    stored_map,
    with_created,
)
from replication.control.written import open_written
from replication.errors import ClusterError, LeaseError, NoAnswerError, SetupError
from replication.kafka.cluster import Cluster, open_clusters
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.model import RECORDS, Committed, Flow, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.map import OffsetMap, Translation, fields
from replication.offsets.moved import (
    Goal,
    MovedPosition,
    Moving,
    OwnPosition,
    Place,
    move,
    offset_of_goal,
    skip_command,
)
from replication.offsets.runs import OffsetRun
from replication.positions.expire import rejected_records, with_records
from replication.positions.find import find_by_spans
from replication.positions.flow_clients import FlowClients, IdleFlowClients, compared
from replication.positions.survey import AskedPositions, LogSpans, own_position
from replication.spark.counting import count_records
from replication.state.change_files import open_changes
from replication.state.locks import find_job_owner
from replication.state.requests import MoveRequest
from replication.topics.topic_plan import TopicPlan, copy_rule
from replication.upkeep.prepare import look

# Whether partitions of a flow are being copied, as far as this machine and others can tell.


@dataclass(frozen=True, slots=True)
class Running:
    """What of a flow is being copied.

    Args:
        by: Who copies it, in words; "" if nobody does.
        is_in_force: Whether whoever copies it has said that all pauses are in force.
    """

    flow: Flow
    by: str
    steering: Overrides
    is_in_force: bool = True

    def refuse(self, partitions: Collection[TopicPartition]) -> None:
        """Raises an error if any of *partitions* is being copied."""
        paused = self.steering.paused
        copied = [tp for tp in sorted(partitions) if not paused.covers(tp)]
        if not self.by or (not copied and self.is_in_force):
            return
        runs = f"flow {self.flow} runs: {self.by}"
        if not copied:
            raise LeaseError(f"{runs}. The pause is not in force there yet: ask again in a moment")
        named = f"--topic {copied[0].topic} --partition {copied[0].partition}"
        more = f" and {len(copied) - 1} more" if len(copied) > 1 else ""
        raise LeaseError(
            f"{runs}. {copied[0]}{more} is being copied, so its position moves on: pause it first, "
            f"python -m replication pause FILE --flow '{self.flow}' {named}, or stop the flow, "
            f"python -m replication stop FILE --flow '{self.flow}'"
        )


def running_now(mirror: MirrorConfig, config: FlowConfig) -> Running:
    """Returns what of *config*'s flow is being copied."""
    flow = config.flow
    with open_changes(mirror.access, [flow]) as changes:
        steering, applied = read_all(changes[flow]), changes[flow].applied()
    pauses = {each.name for each in steering.in_force if each.what in ("pause", "hold")}
    is_in_force = applied is not None and pauses <= applied.names
    return Running(flow, _runner(mirror, config), steering, is_in_force)


def _runner(mirror: MirrorConfig, config: FlowConfig) -> str:
    """Returns who copies the records of *config*'s flow, in words; "" if nobody does.

    A process that has just begun may hold the lock on this machine, and not yet be in the group.
    """
    for job in sorted(RECORDS):
        if owner := find_job_owner(mirror.state_dir, config.flow, job):
            return str(owner)
    with LeaseGroups() as coordinators:
        witness = coordinators.ask([config])[config.flow]
    if witness.members is None:
        raise ClusterError(
            f"cannot see whether {config.flow} runs: cluster {witness.cluster} does not say who is "
            f"in group {witness.group}: {witness.reason}"
        )
    if not witness.members:
        return ""
    return (
        f"group {witness.group} on cluster {witness.cluster} has a member (a killed process stays "
        "one for about 10 s)"
    )


# How many records lie in spans of source offsets, where offsets alone do not tell.

MOST_COUNTED: Final = 1_000_000
"""Offsets of the spans that are counted together; more are not read."""

Span = tuple[int, int]
"""First offset and end offset."""


def counted_records(
    clients: FlowClients,
    spans: Mapping[TopicPartition, Span],
    maps: Mapping[TopicPartition, Iterable[OffsetRun]],
) -> dict[TopicPartition, int]:
    """Counts the records to be copied in each of *spans* of upstream partitions.

    Nothing is read of a span that its offset map among *maps* shows as dense; a span that is too
    long to be read has no entry. Spark starts if anything is to be read.
    """
    config = clients.config
    topics = {tp.topic for tp in spans}
    rule = copy_rule(config, topics)
    settings = clients.source.topic_config(topics)
    policies = {topic: settings.get(topic, {}).get("cleanup.policy") for topic in topics}
    # the source deletes records in the middle of these
    compacted = {
        topic
        for topic, policy in policies.items()
        if policy is None or "compact" in str(policy.value)
    }
    found: dict[TopicPartition, int] = {}
    left: dict[TopicPartition, Span] = {}
    room = MOST_COUNTED
    for tp, span in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        width = span[1] - span[0]
        if copies_all(rule) and tp.topic not in compacted and is_dense(span, maps.get(tp, ())):
            found[tp] = width
        elif width < room:
            left[tp] = span
            room -= width
    if left:
        with compared(config.flow):
            counts = count_records(clients.spark, config.source.consumer, left, rule)
        found |= {tp: counts.get(tp, 0) for tp in left}
    return found


def copies_all(rule: CopyRule) -> bool:
    """Returns whether *rule* leaves no record out, whatever fields it has."""
    return replace(rule, timestamps="preserve", mark=None) == CopyRule()


def is_dense(span: Span, runs: Iterable[OffsetRun]) -> bool:
    """Returns whether *runs* say that each offset of *span* had a record."""
    first, until = span
    for run in sorted(run for run in runs if run.is_dense and not run.is_anchor):
        if run.src_from <= first < run.src_until:
            first = run.src_until
    return first >= until


# The consumer groups whose translation changes when a position is moved.


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """A group whose committed offset on the source means another one on the target by a move.

    Args:
        group: Its name.
        partition: Upstream.
        committed: What it has committed on the source.
        before: What that is on the target now.
        after: What it will be when everything is copied that the move has copied again.
    """

    group: str
    partition: TopicPartition
    committed: int
    before: Translation
    after: Translation

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "group": self.group,
            **self.partition._asdict(),
            "committed": self.committed,
            "before": fields(self.before),
            "after": fields(self.after),
        }


@dataclass(frozen=True, slots=True)
class MovedMap:
    """The stored *runs* of a partition that is to be moved.

    *records* are left out or copied again; None if that is not known.
    """

    runs: tuple[OffsetRun, ...]
    moved: MovedPosition
    records: int | None

    @property
    def before(self) -> OffsetMap:
        """The map without the move."""
        return OffsetMap([*self.runs, *self.moved.before.runs])

    @property
    def after(self) -> OffsetMap:
        """The map when what is copied again has been copied."""
        runs = [*self.runs, *self.moved.new_runs()]
        if (span := self.moved.copied_again) is not None:
            width = span[1] - span[0]
            count = width if self.records is None else min(width, self.records)
            runs.append(OffsetRun(*span, self.moved.position.downstream, count))
        return OffsetMap(runs)


def changed_groups(
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    maps: Mapping[TopicPartition, MovedMap],
) -> tuple[MovedGroup, ...]:
    """Returns those of the groups that have *committed* something whose translation changes."""
    befores = {tp: each.before for tp, each in maps.items()}
    afters = {tp: each.after for tp, each in maps.items()}
    found = (
        MovedGroup(
            group, tp, at.offset, befores[tp].translate(at.offset), afters[tp].translate(at.offset)
        )
        for group, offsets in sorted(committed.items())
        for tp, at in sorted(offsets.items())
        if tp in maps
    )
    return tuple(each for each in found if each.before != each.after)


def moved_groups(
    config: FlowConfig, source: Cluster, maps: Mapping[TopicPartition, MovedMap]
) -> tuple[tuple[MovedGroup, ...], tuple[str, ...]]:
    """Returns the groups whose translation changes, and a line for each that is not known."""
    try:
        with Groups(shared_jvm(), config.source.alias, config.source.admin) as groups:
            read = read_groups(source, groups, config.groups.accepts, ())
    except (ClusterError, SetupError) as error:
        return (), (f"the groups whose translation changes are not known: {error}",)
    return changed_groups(read.committed, maps), read.problems


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
        kind = IdleFlowClients if may_start_spark else _SparklessClients
        with kind(config, clusters) as clients:
            plan = plan_moves(clients, stored, topics, goals)
    return replace(plan, problems=(*doubts, *plan.problems))


class _SparklessClients(IdleFlowClients):
    """The sides of a flow for a process that must not start Spark."""

    @property
    def spark(self) -> NoReturn:
        """Raises SetupError: the command line may start Spark."""
        raise SetupError("this needs Spark: ask by the command move-position")


def plan_moves(
    clients: FlowClients, stored: StoredMap, plan: TopicPlan, goals: Mapping[TopicPartition, Goal]
) -> MovePlan:
    """Returns what becomes of partitions that are to go on at *goals*, and are not copied now."""
    plan = _checked(plan, goals.keys())
    spans, own = _own_positions(clients, stored, plan, goals.keys())
    asked = _asked(clients, plan, (spans, own), goals)
    moved = _moved(asked, plan, spans, own)
    before = {tp: at.position.upstream for tp, at in own.items()}
    moving = {tp: at for tp, at in moved.items() if at.position.upstream != before[tp]}
    maps, unknown = _maps(clients, stored, plan, moving)
    groups, unread = moved_groups(clients.config, clients.source, maps) if maps else ((), ())
    moves = tuple(
        PlannedMove(MoveRequest(tp, asked[tp]), at, maps[tp].records, stored.moves.get(tp))
        for tp, at in sorted(moving.items())
    )
    stay = tuple(sorted(moved.keys() - moving.keys()))
    return MovePlan(moves, stay, groups, (*unknown, *unread))


def planned_skip(
    mirror: MirrorConfig, config: FlowConfig, tp: TopicPartition, offset: int
) -> MovePlan:
    """Returns what becomes of *tp* if it goes on behind the record at *offset*, copied up to there.

    Only a record that cannot be copied is skipped: the flow says so of the next record of a topic
    that it has set aside, or the record itself shows it while nobody copies its topic.

    Raises:
        NoAnswerError: It is no such record, or is passed already, or somebody has asked for a move.
        StateError, IdentityError, ClusterError, SetupError: As of `planned_moves`.
    """
    running = running_now(mirror, config)
    config = running.steering.overlaid(config)
    is_named, is_aside = _said_of(mirror, config, tp, offset)
    is_idle = not running.by or is_aside or running.steering.paused.covers(tp)
    if not (is_named or is_idle):
        raise NoAnswerError(
            f"{config.flow} runs, and does not say that the record at offset {offset} of {tp} "
            "cannot be copied, so it is not skipped; status shows what is set aside, and why"
        )
    with open_written(mirror, config) as (state, doubts), open_clusters(config) as clusters:
        stored = stored_map(mirror.access, config, state)
        topics = _checked(look(config, *clusters), [tp])
        if (waiting := stored.moves.get(tp)) is not None:
            by = waiting.request.origin or "somebody"
            raise NoAnswerError(f"a move of {tp} to {waiting.moving.to} waits already, of {by}")
        with IdleFlowClients(config, clusters) as clients:
            plan = _plan_skip(clients, stored, topics, (tp, offset), is_named=is_named)
    return replace(plan, problems=(*doubts, *plan.problems))


def _said_of(
    mirror: MirrorConfig, config: FlowConfig, tp: TopicPartition, offset: int
) -> tuple[bool, bool]:
    """Returns whether the flow offers to skip that record, and whether its topic is set aside.

    Only some topics have a condition of their own, and only one partition of each is named.
    """
    command = skip_command(config.flow, tp, offset)
    try:
        with FlowAnswers(mirror, [config]) as answers:
            (answer,) = answers.ask(are_tables_wanted=False)
    except NoAnswerError:
        return False, False
    said = answer.heard.conditions if answer.heard else ()
    named = {one.next_step for one in said if one.code == "set-aside"}
    return command in named, tp.topic in answer.aside


def _plan_skip(
    clients: FlowClients,
    stored: StoredMap,
    plan: TopicPlan,
    bad: tuple[TopicPartition, int],
    *,
    is_named: bool,
) -> MovePlan:
    tp, offset = bad
    spans, own = _own_positions(clients, stored, plan, [tp])
    at = own[tp].position
    if offset < at.upstream:
        _refuse([f"{tp} stands at offset {at.upstream}: offset {offset} is copied or passed"])
    with compared(clients.config.flow):
        found = None if is_named else rejected_records(clients, plan, {tp: at}).get(tp)
        if found is None and with_records(clients, {tp: (at.upstream, offset)}):
            _refuse([f"{tp} stands at offset {at.upstream}, and a record before {offset} waits"])
        if not is_named and (found is None or found.offset != offset):
            other = "" if found is None else f"; the next one that cannot is {found.text}"
            text = f"nothing shows that the record at offset {offset} cannot be copied"
            _refuse([f"{tp}: {text}{other}"])
    moving = {tp: Moving(offset + 1, own[tp].seen, plan.source_ids[tp.topic])}
    moved = _moved(moving, plan, spans, own)
    maps = {tp: MovedMap(_runs(stored, plan, moved)[tp], moved[tp], 1)}
    groups, unread = moved_groups(clients.config, clients.source, maps)
    # what was on its way when the target rejected the record; a mend repeats it as well
    last = max((run.tgt_until for run in maps[tp].runs if run.count), default=at.downstream)
    if (behind := at.downstream - last) > 0 and not plan.is_shared(tp):
        target = clients.config.flow.target
        text = f"{target} has {behind} of the records behind it already, and they come once more"
        unread = (*unread, f"{tp} offset {offset}: {text}")
    return MovePlan((PlannedMove(MoveRequest(tp, moving[tp]), moved[tp], 1),), (), groups, unread)


def _checked(plan: TopicPlan, partitions: Collection[TopicPartition]) -> TopicPlan:
    """Returns *plan* for the topics of *partitions*, all of which can be asked."""
    topics = {tp.topic for tp in partitions}
    no_topic = "it is not one of the flow's topics: check the name"
    problems = [
        f"topic {topic}: {plan.rejected.get(topic, no_topic)}"
        for topic in sorted(topics - plan.topics.keys())
    ]
    there = {*plan.partitions, *plan.leaderless}
    for tp in sorted(partitions):
        if tp in plan.leaderless:
            problems.append(f"{tp}: no broker leads it on one side; start the brokers")
        elif tp not in there and tp.topic in plan.topics:
            problems.append(f"{tp}: there is no such partition")
    _refuse(problems)
    return plan.without(plan.topics.keys() - topics)


def _own_positions(
    clients: FlowClients, stored: StoredMap, plan: TopicPlan, wanted: Collection[TopicPartition]
) -> tuple[LogSpans, dict[TopicPartition, OwnPosition]]:
    """Returns the spans of *plan*'s logs, and where the *wanted* partitions go on by themselves."""
    config = clients.config
    spans, _ = find_starts(config, plan, (clients.source, clients.target), stored)
    accepted = AskedPositions(stored.accepted)
    with compared(config.flow):
        found = find_by_spans(clients, with_created(plan), stored, spans, accepted)
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
    clients: FlowClients,
    plan: TopicPlan,
    found: tuple[LogSpans, Mapping[TopicPartition, OwnPosition]],
    goals: Mapping[TopicPartition, Goal],
) -> dict[TopicPartition, Moving]:
    """Returns the moves to *goals* of partitions with these spans and positions."""
    spans, own = found
    times = {tp: goal.value for tp, goal in goals.items() if goal.kind == "time"}
    at_times = clients.source.offsets_for_time(times) if times else {}
    asked = {}
    for tp, goal in goals.items():
        reset = clients.config.auto_offset_reset
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
    clients: FlowClients,
    stored: StoredMap,
    plan: TopicPlan,
    moving: Mapping[TopicPartition, MovedPosition],
) -> tuple[dict[TopicPartition, MovedMap], tuple[str, ...]]:
    """Returns the maps of partitions that move, and a line if their records cannot be counted."""
    runs = _runs(stored, plan, moving)
    spans = {tp: span for tp, at in moving.items() if (span := at.left_out or at.copied_again)}
    unknown: tuple[str, ...] = ()
    records = dict.fromkeys(moving.keys() - spans.keys(), 0)
    try:
        records |= counted_records(clients, spans, runs)
    except SetupError as error:
        unknown = (f"records are not counted: {error}",)
    maps = {tp: MovedMap(runs[tp], at, records.get(tp)) for tp, at in moving.items()}
    return maps, unknown


def _runs(
    stored: StoredMap, plan: TopicPlan, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[OffsetRun, ...]]:
    """Returns the runs that the stored map has of *partitions* as their topics are now."""
    found = stored.maps(dict.fromkeys(partitions, 0))
    known = {tp for tp in found if found[tp].topic_id == plan.source_ids[tp.topic]}
    return {tp: found[tp].offsets.runs if tp in known else () for tp in partitions}


def _refuse(problems: Collection[str]) -> None:
    if problems:
        raise NoAnswerError("".join(["nothing is moved:", *(f"\n  - {text}" for text in problems)]))
