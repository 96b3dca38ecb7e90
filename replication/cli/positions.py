"""Where partitions stand, and where an operator lets them go on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from replication.cli.groups import offset_text
from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    REASON,
    chosen_flow,
    echo,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.cli.status import first_line
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import in_force
from replication.control.moves import (
    MovedGroup,
    MovePlan,
    PlannedMove,
    chosen_goals,
    planned_moves,
    planned_skip,
)
from replication.control.positions import FlowPosition, flow_positions
from replication.control.starts import Acceptance, plan_acceptance, stored_map
from replication.errors import ConfigError, NoAnswerError
from replication.kafka.cluster import open_clusters
from replication.model import TopicPartition
from replication.offsets.guard import StartOffset
from replication.offsets.map import NoAnswer, quality
from replication.offsets.moved import GOALS, LARGEST_OFFSET, Goal, parse_goal, read_goals
from replication.state.readers import open_reader
from replication.state.requests import ask_owner, withdraw_moves
from replication.topics.topic_plan import TopicPlan

HEADINGS: Final = ("partition", "source offset", "target offset", "lag", "map's age", "state")


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@AS_JSON
@known_errors
def positions(*, file: str, name: str | None, topics: Sequence[str], as_json: bool) -> None:
    """Show where each partition of a flow stands.

    The next source offset to copy, where its record is written, and how many source offsets wait,
    by the offset map; how long the map has said so; and what the partition does. A dash is what is
    not known.
    """
    config = load_config(file)
    found = flow_positions(config, chosen_flow(config, name), topics)
    for problem in found.problems:
        say(problem, err=True)
    if as_json:
        print_json(found.document())
        return
    flow = found.answer.flow
    say(f"{flow}: {first_line(found.answer)}")
    print_table(f"positions of {flow}", HEADINGS, map(_cells, found.positions))


def _cells(one: FlowPosition) -> tuple[str, ...]:
    at = one.position
    waiting = f"; a move to {one.waiting.moving.to} waits" if one.waiting else ""
    return (
        str(one.partition),
        offset_text(at.upstream if at else None),
        offset_text(at.downstream if at else None),
        offset_text(one.lag),
        "-" if one.age is None else f"{one.age:.0f} s",
        f"{one.state}{f': {one.reason}' if one.reason else ''}{waiting}",
    )


# ``move-position`` and ``reset-positions``: partitions go on elsewhere.

MOVE_HEADINGS: Final = ("partition", "position", "goes on at", "target offset", "effect", "records")
GROUP_HEADINGS: Final = ("group", "partition", "committed", "on target", "then", "answer then")
EXECUTE: Final = click.option(
    "--execute", is_flag=True, help="Move them; without it this is a dry run."
)


def _goal(_context: click.Context, _option: click.Parameter, value: str | None) -> Goal | None:
    if value is None:
        return None
    try:
        return parse_goal(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", help="Its name on the source.")
@click.option("--partition", type=click.IntRange(min=0), help="One partition; default: all.")
@click.option("--to", "goal", metavar="WHERE", callback=_goal, help=f"Where to go on: {GOALS}.")
@click.option(
    "--from-file",
    "goals_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Lines of topic,partition,WHERE, or offsets as Kafka Connect's REST has them.",
)
@EXECUTE
@REASON
@AS_JSON
@known_errors
def move_position(
    *,
    file: str,
    name: str | None,
    topic: str | None,
    partition: int | None,
    goal: Goal | None,
    goals_file: str | None,
    **order: Any,  # noqa: ANN401 - as `_run` takes them
) -> None:
    """Let partitions go on at other source offsets.

    Shows what is left out or copied again, how many records that is, and the groups whose
    translation changes. With --execute, the next start goes on there, once, and only if the
    position has not moved meanwhile. Refused for what is being copied now: pause it, or stop the
    flow. A line of a file that cannot be read is named and left out; the exit code is 2 then.
    """
    goals = (topic is not None, goal is not None, goals_file is not None)
    if goals not in ((True, True, False), (False, False, True)) or (
        goals_file is not None and partition is not None
    ):
        raise click.UsageError("write --topic and --to, or --from-file alone")

    left_out: list[str] = []

    def choose(flow: FlowConfig, plan: TopicPlan) -> Mapping[TopicPartition, Goal]:
        if goals_file is not None:
            goals, problems = _read(goals_file, flow)
            left_out.extend(problems)
            for line in problems:
                say(f"warning: left out: {line}", err=True)
            return goals
        return chosen_goals(plan, [str(topic)], partition, goal or Goal("reset"))

    _run(file, name, choose, **order)
    if left_out:  # after the others, which one wrong line must not hold up
        raise ConfigError(str(goals_file), left_out)


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", "topics", multiple=True, help="Its name on the source; may be repeated.")
@click.option("--all-topics", is_flag=True, help="All topics of the flow, as Connect's DELETE.")
@click.option("--partition", type=click.IntRange(min=0), help="One partition; default: all.")
@EXECUTE
@REASON
@AS_JSON
@known_errors
def reset_positions(
    *,
    file: str,
    name: str | None,
    topics: Sequence[str],
    all_topics: bool,
    partition: int | None,
    **order: Any,  # noqa: ANN401 - as `_run` takes them
) -> None:
    """Let topics start again where auto.offset.reset says.

    With earliest, everything that the source has is copied again; with latest, what is not copied
    yet is left out. Shows what move-position shows, and is refused as that is.
    """
    if bool(topics) == all_topics:
        raise click.UsageError("write --topic or --all-topics")

    def choose(_flow: FlowConfig, plan: TopicPlan) -> Mapping[TopicPartition, Goal]:
        return chosen_goals(plan, topics or sorted(plan.topics), partition, Goal("reset"))

    _run(file, name, choose, **order)


def _run(
    file: str,
    name: str | None,
    choose: Callable[[FlowConfig, TopicPlan], Mapping[TopicPartition, Goal]],
    *,
    execute: bool,
    reason: str,
    as_json: bool,
) -> None:
    config = load_config(file)
    flow = chosen_flow(config, name)
    plan = planned_moves(config, flow, lambda topics: choose(flow, topics))
    _carry_out(config, flow, plan, execute=execute, reason=reason, as_json=as_json)


def _carry_out(
    config: MirrorConfig,
    flow: FlowConfig,
    plan: MovePlan,
    *,
    execute: bool,
    reason: str,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"flow": str(flow.flow), "execute": execute, **plan.document()})
    else:
        _print(plan, flow)
    if execute:
        requests = (each.request for each in plan.moves)
        ask_owner(config.access, flow.flow, requests, reason)
    if not as_json:
        done = "asked for: the flow goes on there as soon as it starts with this again"
        echo(done if execute else "dry run: nothing is moved; pass --execute to move")


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="Its name on the source.")
@click.option("--partition", type=click.IntRange(min=0), required=True, help="The partition.")
@click.option(
    "--offset",
    type=click.IntRange(0, LARGEST_OFFSET - 1),
    required=True,
    help="The source offset of the record.",
)
@click.option("--undo", is_flag=True, help="Take it back, as long as the record is not passed.")
@click.option("--execute", is_flag=True, help="Skip it; without it this is a dry run.")
@REASON
@AS_JSON
@known_errors
def skip(
    *,
    file: str,
    name: str | None,
    topic: str,
    partition: int,
    offset: int,
    undo: bool,
    execute: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Leave out one record that cannot be copied.

    Its topic goes on behind it. Shows what is left out, and the groups whose translation changes.
    With --execute, a running flow goes on within seconds, or the next start does. Refused for any
    other record than the one that keeps its topic set aside.
    """
    config = load_config(file)
    flow, tp = chosen_flow(config, name), TopicPartition(topic, partition)
    if undo:
        if execute or as_json:
            raise click.UsageError("write --undo without --execute and --json")
        if not withdraw_moves(config.access, flow.flow, tp, offset + 1):
            raise NoAnswerError(
                f"no skip of {tp} offset {offset} waits: nobody has asked for it, or the record is "
                "passed; move-position of the paused partition copies it after all"
            )
        say(f"taken back: {tp} offset {offset} is not skipped from now on")
        return
    plan = planned_skip(config, flow, tp, offset)
    why = f"skip offset {offset}{f': {reason}' if reason else ''}"
    _carry_out(config, flow, plan, execute=execute, reason=why, as_json=as_json)


def _read(file: str, flow: FlowConfig) -> tuple[dict[TopicPartition, Goal], list[str]]:
    try:
        text = Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise ConfigError(file, [f"cannot be read as UTF-8: {error}"]) from error
    return read_goals(file, text, flow.source.alias)


def _print(plan: MovePlan, flow: FlowConfig) -> None:
    for problem in plan.problems:
        say(problem, err=True)
    if plan.moves:
        print_table(
            f"positions to move in {flow.flow}", MOVE_HEADINGS, map(_move_cells, plan.moves)
        )
    if plan.groups:
        title = "groups that mean another offset on the target then"
        print_table(title, GROUP_HEADINGS, map(_group_cells, plan.groups))
    for tp in plan.stay:
        say(f"{tp} is there already")


def _move_cells(planned: PlannedMove) -> tuple[str, ...]:
    moved, waiting = planned.moved, planned.replaces
    replaced = f"; takes the place of a move to {waiting.moving.to}" if waiting else ""
    before = moved.before
    return (
        str(planned.request.partition),
        f"{before.position.upstream}{' (none yet)' * before.is_new}",
        str(moved.position.upstream),
        str(moved.position.downstream),
        f"{moved.effect}{replaced}",
        offset_text(planned.records),
    )


def _group_cells(group: MovedGroup) -> tuple[str, ...]:
    before, after = (
        offset_text(None if isinstance(at, NoAnswer) else at.offset)
        for at in (group.before, group.after)
    )
    at = str(group.committed)
    return group.group, str(group.partition), at, before, after, quality(group.after)


# ``accept``: lets a topic go on although records are lost or repeated.

ACCEPT_HEADINGS = ("partition", "goes on at", "target offset", "effect", "because")


def _start(_context: click.Context, _option: click.Parameter, value: str) -> StartOffset:
    if value.isdecimal():
        return int(value)
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    raise click.BadParameter("write an offset, earliest or latest")


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="Its name on the source.")
@click.option(
    "--partition", type=click.IntRange(min=0), help="One partition; default: all that are refused."
)
@click.option(
    "--from",
    "start",
    required=True,
    metavar="OFFSET",
    callback=_start,
    help="The source offset to go on at: a number, earliest or latest.",
)
@click.option("--execute", is_flag=True, help="Accept it; without it this is a dry run.")
@REASON
@AS_JSON
@known_errors
def accept(
    *,
    file: str,
    name: str | None,
    topic: str,
    partition: int | None,
    start: StartOffset,
    execute: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Let a topic go on despite lost or repeated records.

    Shows what is lost and what is repeated. With --execute, the process that runs the flow goes on
    there within seconds, or the next start does. It holds once, and only if the flow cannot go on
    by itself.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    with open_reader(config.access) as state, open_clusters(flow) as clusters:
        stored = stored_map(config.access, flow, state)
        acceptance = plan_acceptance(flow, clusters, stored, (topic, partition), start)
    _print_accepted(acceptance, execute=execute, as_json=as_json)
    if execute:
        ask_owner(config.access, flow.flow, [acceptance.request], reason)
    if not as_json:
        done = "accepted" if execute else "dry run: nothing accepted; pass --execute to accept"
        echo(done)


def _print_accepted(acceptance: Acceptance, *, execute: bool, as_json: bool) -> None:
    if as_json:
        print_json({"execute": execute, **acceptance.document()})
        return
    rows = (
        (
            str(tp),
            str(jump.position.upstream),
            str(jump.position.downstream),
            jump.effect,
            jump.refusal.text,
        )
        for tp, jump in acceptance.jumps.items()
    )
    print_table(f"to accept for {acceptance.request.topic}", ACCEPT_HEADINGS, rows)
    if acceptance.left:
        names = ", ".join(map(str, acceptance.left))
        echo(f"the topic stays set aside until these can go on as well: {names}", err=True)
