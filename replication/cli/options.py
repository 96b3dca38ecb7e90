"""What the command line's commands share."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, get_args

import click
from rich.console import Console
from rich.table import Table

from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import ConfigError, ReplicationError
from replication.model import Job, Mode

P = ParamSpec("P")
FILE = click.argument("file", type=click.Path(dir_okay=False))
FLOW = click.option("--flow", "name", metavar="A->B", help="Only this flow.")
JOBS = click.Choice(get_args(Job))
MODES = click.Choice(get_args(Mode))
FILE_WIDTH = 250  # of a table in a file or pipe, where nobody wants names broken in two


def refusals(command: Callable[P, None]) -> Callable[P, None]:
    """Turns a known error into its text on stderr and its exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ReplicationError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)

    return run


def chosen_flows(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """The enabled flow called *name*, or all for None.

    Raises:
        ConfigError: There is none of that name.
    """
    chosen = tuple(it for it in config.flows if name in {None, str(it.flow)})
    if not chosen:
        enabled = ", ".join(str(it.flow) for it in config.flows)
        raise ConfigError(config.file, [f"--flow {name!r}: no enabled flow; enabled: {enabled}"])
    return chosen


def print_table(table: Table) -> None:
    """Prints *table* as wide as the terminal, or wide enough for a file."""
    console = Console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)
