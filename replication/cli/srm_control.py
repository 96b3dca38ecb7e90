"""``srm-control``: the words of Cloudera's SRM for lists of topics and groups."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from replication.cli.change import WAIT_SECONDS, Lists, Order, change_lists, show_lists
from replication.cli.options import known_errors
from replication.errors import ConfigError

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


@srm_control.command()
@srm_options
@known_errors
def topics(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change or list which topics a flow copies."""
    _change("topics", **asked)


@srm_control.command()
@srm_options
@known_errors
def groups(**asked: Any) -> None:  # noqa: ANN401 - click's values
    """Change or list which groups a flow translates."""
    _change("groups", **asked)


def _change(
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
