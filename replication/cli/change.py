"""What all commands share that change a running flow: options, the preview, the wait."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    REASON,
    chosen_flow,
    print_json,
    say,
)
from replication.config.changes import Change
from replication.config.file import load_config
from replication.control.changed import in_force
from replication.control.preview import Effect, preview
from replication.control.steer import Steered, await_in_force, check, make, open_steered
from replication.errors import NoAnswerError
from replication.state.paths import local_path

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
NewChange = Callable[[Steered], Change]
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


def change_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every command that changes a flow."""
    for option in (AS_JSON, WAIT, DRY_RUN, REASON, ONE_FLOW, FILE):
        command = option(command)
    return command


def carry_out(order: Order, new: NewChange) -> None:
    """Shows what the change would do, makes it, and waits until it is in force.

    Raises:
        ConfigError: It cannot be followed, or would do nothing.
        StateError: The state directory cannot be read or written.
        NoAnswerError: It is made, and not in force in time.
    """
    mirror = load_config(order.file)
    config = chosen_flow(mirror, order.name)
    with open_steered(mirror, config) as steered:
        change = new(steered)
        check(steered, change)
        effect = preview(in_force(mirror), steered, change)
        if not order.as_json:
            _print(change, effect)
        if order.dry_run:
            _end(order, change, effect, "dry run: nothing is changed")
            return
        made, others = make(steered, change)
        for other in others:
            say(f"at the same time: {other.number}: {other.text}, by {other.origin}", err=True)
        outcome = "made"
        if order.wait_seconds:
            is_local = local_path(mirror.state_dir) is not None
            outcome = await_in_force(steered, made, order.wait_seconds, is_local=is_local)
    _end(order, made, effect, outcome)
    if outcome.startswith("not in force"):
        raise NoAnswerError(f"change {made.number} is made, and {outcome}")


def _end(order: Order, change: Change, effect: Effect, outcome: str) -> None:
    if order.as_json:
        number: dict[str, Any] = {"number": change.number, "id": change.id} if change.id else {}
        document = {**number, **change.document(), "effect": effect.document(), "outcome": outcome}
        print_json(document)
        return
    say(f"change {change.number}: {outcome}" if change.id else outcome)


def _print(change: Change, effect: Effect) -> None:
    say(f"{change.flow}: {change.text}")
    _print_names("copied from now on", [f"{name} -> {copy}" for name, copy in effect.come.items()])
    _print_names("not copied any more", list(effect.go))
    _print_names("remote topics to create", effect.create)
    _print_names("paused", list(map(str, effect.pauses)))
    _print_names("resumed", list(map(str, effect.resumes)))
    _print_names("groups translated from now on", effect.groups_come)
    _print_names("groups not translated any more", effect.groups_go)
    for text in effect.warnings:
        say(f"warning: {text}")


def _print_names(what: str, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        say(f"  {what}: {', '.join(names[:SHOWN])}{more}")
