"""Commands that change a running flow: its parts, lists and limits; their history, and undo."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    FLOW,
    ONE_FLOW,
    REASON,
    chosen_flow,
    chosen_flows,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.changes import Change, ListName, What, list_of
from replication.config.file import load_config
from replication.config.limits import NO_LIMIT, LimitError, parse_limit
from replication.control.changed import changed, in_force, steerings
from replication.control.overrides import (
    FlowOverrides,
    await_in_force,
    check,
    make,
    new_change,
    open_steered,
    pause_items,
    undo_of,
)
from replication.control.preview import Effect, preview
from replication.errors import ConfigError, NoAnswerError
from replication.foreign_json import to_json
from replication.state.folder import local_path

WAIT_SECONDS: Final = 30
SHOWN: Final = 20
"""Names that a line of the preview shows."""

DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what it would do.")
WAIT = click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it is in force; 0 does not wait. The change stays either way.",
)
ANYWAY = click.option(
    "--anyway", is_flag=True, help="Also for a topic that the flow does not copy yet."
)
NewChange = Callable[[FlowOverrides], Change]
"""Makes the change, by what the flow is now."""


@dataclass(frozen=True, slots=True)
class Order:
    """How a change is asked for: which flow, whether only shown, how long to wait, how to print."""

    file: str
    name: str | None
    reason: str
    dry_run: bool
    wait_seconds: float
    as_json: bool
    anyway: bool = False


def change_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every command that changes a flow."""
    for option in (AS_JSON, WAIT, DRY_RUN, REASON, ONE_FLOW, FILE):
        command = option(command)
    return command


def carry_out(order: Order, new: NewChange) -> None:
    """Shows what the change would do, makes it, and waits until it is in force."""

    def end(change: Change, outcome: str) -> None:
        if not order.as_json:
            say(f"change {change.number}: {outcome}" if change.id else outcome)
            return
        number: dict[str, Any] = {"number": change.number, "id": change.id} if change.id else {}
        print_json({**number, **to_json(change), "effect": to_json(effect), "outcome": outcome})

    mirror = load_config(order.file)
    config = chosen_flow(mirror, order.name)
    with open_steered(mirror, config) as steered:
        change = new(steered)
        check(steered, change)
        effect = preview(in_force(mirror), steered, change, anyway=order.anyway)
        if not order.as_json:
            _print(change, effect)
        if order.dry_run:
            end(change, "dry run: nothing is changed")
            return
        made, others = make(steered, change)
        for other in others:
            say(f"at the same time: {other.number}: {other.text}, by {other.origin}", err=True)
        outcome = "made"
        if order.wait_seconds:
            is_local = local_path(mirror.state_dir) is not None
            outcome = await_in_force(steered, made, order.wait_seconds, is_local=is_local)
    end(made, outcome)
    if outcome.startswith("not in force"):
        raise NoAnswerError(f"change {made.number} is made, and {outcome}")


def _print(change: Change, effect: Effect) -> None:
    say(f"{change.flow}: {change.text}")
    for what, names in (
        ("copied from now on", [f"{name} -> {copy}" for name, copy in effect.come.items()]),
        ("not copied any more", list(effect.go)),
        ("remote topics to create", effect.create),
        ("paused", list(map(str, effect.pauses))),
        ("resumed", list(map(str, effect.resumes))),
        ("groups translated from now on", effect.groups_come),
        ("groups not translated any more", effect.groups_go),
    ):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            say(f"  {what}: {', '.join(names[:SHOWN])}{more}")
    for text in effect.warnings:
        say(f"warning: {text}")


# ``pause`` and ``resume``, ``hold`` and ``release``: let a flow or parts of it stand still.


def part_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say what is paused or resumed; without them it is the whole flow."""
    command = click.option(
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        help="Only this partition of the one --topic; may be repeated.",
    )(command)
    return click.option(
        "--topic", "topics", multiple=True, help="Only these topics: a name or a regex."
    )(command)


@click.command()
@change_options
@part_options
@ANYWAY
@known_errors
def pause(*, topics: Sequence[str], partitions: Sequence[int], **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Pause a flow, topics or partitions, while it runs.

    Nothing more is copied of them; positions, checkpoints, settings and ACLs go on. Says what is
    near the source's retention.
    """
    _change("pause", Order(**asked), pause_items(topics, partitions))


@click.command()
@change_options
@part_options
@known_errors
def resume(*, topics: Sequence[str], partitions: Sequence[int], **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Let what was paused go on where it stood.

    Resuming a topic resumes its partitions; resuming the flow leaves pauses of topics as they are.
    """
    _change("resume", Order(**asked), pause_items(topics, partitions))


@click.command()
@change_options
@click.argument("operation", metavar="OPERATION")
@known_errors
def hold(*, operation: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Pause a flow for an operation until that is released.

    An operation is a failover, for example. OPERATION is a name for it, such as CHG-117. While any
    operation holds the flow, resume does not let it go on, and a drain of it ends with exit code 5.
    """
    _change("hold", Order(**asked), (operation,))


@click.command()
@change_options
@click.argument("operation", metavar="OPERATION")
@known_errors
def release(*, operation: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Let a flow go on that was held for an operation.

    It goes on where it stood, unless another operation holds it or it is paused as a whole.
    """
    _change("release", Order(**asked), (operation,))


def _change(what: What, order: Order, items: Sequence[str]) -> None:
    carry_out(order, lambda steered: new_change(steered.flow, what, items, reason=order.reason))


@click.command()
@change_options
@click.option("--bytes", "most_bytes", metavar="20MB", help="At most so many bytes a second.")
@click.option("--records", "most_records", metavar="5000", help="At most so many records a second.")
@click.option("--topic", help="Only for these topics together: a name or a regex.")
@click.option("--none", "no_limit", is_flag=True, help="No limit any more.")
@ANYWAY
@known_errors
def limit(
    *,
    most_bytes: str | None,
    most_records: str | None,
    topic: str | None,
    no_limit: bool,
    **asked: Any,  # noqa: ANN401 - click's values
) -> None:
    """Limit what a flow copies a second, while it runs.

    The last limit of the flow, or of the same --topic, counts as a whole.
    """
    order = Order(**asked)
    if no_limit == (most_bytes is not None or most_records is not None):
        raise ConfigError("limit", ["write --bytes, --records or both, or --none"])
    rates = {"bytes": most_bytes, "records": most_records}
    given = [f"{name}={rate}" for name, rate in rates.items() if rate is not None]
    try:
        items = parse_limit(given or [NO_LIMIT], topic).items
    except LimitError as error:
        raise ConfigError("limit", [str(error)]) from None
    scope = topic or ""
    carry_out(
        order,
        lambda steered: new_change(steered.flow, "limit", items, scope=scope, reason=order.reason),
    )


# ``topics`` and ``group-lists``: change the lists of a flow while it runs.

Lists = Literal["topics", "groups"]
VERBS: Final = ("add", "remove", "exclude", "include")
NAMES: Final[Mapping[Lists, tuple[ListName, ListName]]] = {
    "topics": ("topics", "topics.exclude"),
    "groups": ("groups", "groups.exclude"),
}


def list_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for each thing that can be done with an item, and one that lists them."""
    helps = {
        "add": "Take this item up: a name or a regex; may be repeated.",
        "remove": "Take this item out of the list, as the list has it.",
        "exclude": "Leave out what matches this item; excludes win.",
        "include": "Take this item out of the excludes.",
    }
    command = click.option("--list", "shows", is_flag=True, help="Show the lists in force.")(
        command
    )
    for verb in reversed(VERBS):
        command = click.option(f"--{verb}", verb, multiple=True, help=helps[verb])(command)
    return command


@click.command()
@change_options
@list_options
@known_errors
def topics(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change which topics a flow copies, while it runs.

    Shows which topics come and go, then acts; --dry-run only shows. Positions stay: a topic that
    comes back goes on where it was.
    """
    change_lists("topics", asked)


@click.command(name="group-lists")
@change_options
@list_options
@known_errors
def group_lists(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change whose offsets a flow translates, while it runs.

    Shows which groups come and go, then acts; --dry-run only shows. `groups` shows positions.
    """
    change_lists("groups", asked)


def change_lists(lists: Lists, asked: dict[str, Any]) -> None:
    """Does what was *asked* with the *lists* of topics or groups."""
    wanted = {verb: cast("Sequence[str]", asked.pop(verb)) for verb in VERBS}
    shows, order = asked.pop("shows"), Order(**asked)
    chosen = [verb for verb in VERBS if wanted[verb]]
    if shows:
        show_lists(lists, order)
        return
    if len(chosen) != 1:
        options = ", ".join(f"--{verb}" for verb in VERBS)
        raise ConfigError("the command", [f"write one of {options}, which may be repeated"])
    (verb,) = chosen
    _change(cast("What", f"{lists}.{verb}"), order, wanted[verb])


def show_lists(lists: Lists, order: Order) -> None:
    """Prints the *lists* in force, and which of their items the file does not have."""
    mirror = load_config(order.file)
    with open_steered(mirror, chosen_flow(mirror, order.name)) as steered:
        names = NAMES[lists]
        now = {name: list_of(steered.config, name) for name in names}
        own = {name: list_of(steered.configured, name) for name in names}
    if order.as_json:
        print_json({"flow": str(steered.flow), "lists": {name: list(now[name]) for name in names}})
        return
    for name in names:
        say(f"{steered.flow} {name}:")
        for item in now[name]:
            say(f"  {item}{'' if item in own[name] else '  (changed: not in the file)'}")
        for item in own[name]:
            if item not in now[name]:
                say(f"  - {item}  (changed: taken out)")


# ``history`` and ``undo``: who has changed a flow, when and why, and taking it back.

HEADINGS: Final = ("flow", "number", "change", "by", "at", "reason", "now")


@click.command()
@FILE
@FLOW
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Only what was changed since then, in UTC.",
)
@AS_JSON
@known_errors
def history(*, file: str, name: str | None, since: datetime | None, as_json: bool) -> None:
    """Show who has changed flows while they ran, when and why.

    The last column says what of it is in force.
    """
    mirror = load_config(file)
    flows = chosen_flows(mirror, name)
    found = steerings(mirror.access, [flow.flow for flow in flows])
    begin = since.isoformat() if since else ""
    changes = [
        (change, found[flow.flow].state_of(change, flow))
        for flow in flows
        for change in found[flow.flow].changes
        if change.at >= begin
    ]
    if as_json:
        print_json({"changes": [{**changed(change), "state": state} for change, state in changes]})
        return
    rows = (
        (
            str(change.flow), str(change.number), change.text, change.by, change.at,
            change.reason, state,
        )
        for change, state in changes
    )  # fmt: skip
    print_table("changes", HEADINGS, rows)


@click.command()
@change_options
@click.argument("number", metavar="NUMBER")
@known_errors
def undo(*, number: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Take back a change of a flow, by its number.

    It is as if the change had not been made. An undo has a number, too, and can be undone. Where
    two changes have one number, write the begin of the id after it: 12-3fa.
    """
    order = Order(**asked)
    carry_out(order, lambda steered: undo_of(steered, number, order.reason))


# ``srm-control``: the words of Cloudera's SRM for lists of topics and groups.

WORDS: Final = {
    "--add": "add",
    "--remove": "remove",
    "--add-blacklist": "exclude",
    "--remove-blacklist": "include",
}
"""SRM's options, and what they are called here."""


def srm_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds SRM's options."""
    command = click.option("--list", "shows", is_flag=True, help="Show the lists in force.")(
        command
    )
    for word, verb in WORDS.items():
        command = click.option(
            word, verb, multiple=True, metavar="A,B", help=f"As --{verb} of our own commands."
        )(command)
    command = click.option("--target", required=True, help="The flow's target.")(command)
    command = click.option("--source", required=True, help="The flow's source.")(command)
    return click.option(
        "--config", "file", required=True, type=click.Path(dir_okay=False), help="The file."
    )(command)


@click.group(name="srm-control")
def srm_control() -> None:
    """Change lists in the words of Cloudera's SRM."""


@srm_control.command("topics")
@srm_options
@known_errors
def srm_topics(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change or list which topics a flow copies."""
    _change_srm("topics", **asked)


@srm_control.command("groups")
@srm_options
@known_errors
def srm_groups(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change or list which groups a flow translates."""
    _change_srm("groups", **asked)


def _change_srm(
    lists: Lists, *, file: str, source: str, target: str, shows: bool, **words: Sequence[str]
) -> None:
    order = Order(file, f"{source}->{target}", "srm-control", False, WAIT_SECONDS, False)
    wanted = {
        verb: tuple(item for text in words[verb] for item in text.split(",") if item)
        for verb in WORDS.values()
    }
    if shows:
        show_lists(lists, order)
        return
    if not any(wanted.values()):
        raise ConfigError("srm-control", [f"write one of --list, {', '.join(WORDS)}"])
    for verb, items in wanted.items():
        if items:
            asked: dict[str, Any] = {name: getattr(order, name) for name in Order.__slots__}
            asked |= dict.fromkeys(WORDS.values(), ())
            change_lists(lists, {**asked, verb: items, "shows": False})
