"""``topics`` and ``group-lists``: change the lists of a flow while it runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import click

from replication.cli.change import Order, carry_out, change_options
from replication.cli.options import chosen_flow, known_errors, print_json, say
from replication.config.changes import ListName, What
from replication.config.file import load_config
from replication.config.steering import list_of
from replication.control.steer import new_change, open_steered
from replication.errors import ConfigError

Lists = Literal["topics", "groups"]
VERBS: Final = ("add", "remove", "exclude", "include")
NAMES: Final[Mapping[Lists, tuple[ListName, ListName]]] = {
    "topics": ("topics", "topics.exclude"),
    "groups": ("groups", "groups.exclude"),
}
WHATS: Final[Mapping[tuple[Lists, str], What]] = {
    ("topics", "add"): "topics.add",
    ("topics", "remove"): "topics.remove",
    ("topics", "exclude"): "topics.exclude",
    ("topics", "include"): "topics.include",
    ("groups", "add"): "groups.add",
    ("groups", "remove"): "groups.remove",
    ("groups", "exclude"): "groups.exclude",
    ("groups", "include"): "groups.include",
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
    what, items = WHATS[lists, verb], wanted[verb]
    carry_out(order, lambda steered: new_change(steered.flow, what, items, reason=order.reason))


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
