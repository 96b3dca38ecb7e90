"""Options and output shared by all commands."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import ParamSpec, get_args

import click

from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import ConfigError, ReplicationError, printable
from replication.log import print_failure
from replication.model import Flow, Job, Mode

P = ParamSpec("P")
FILE = click.argument("file", type=click.Path(dir_okay=False))
FLOW = click.option("--flow", "name", metavar="A->B", help="Only this flow.")
CLUSTERS = click.option(
    "--clusters",
    default="",
    metavar="A,B",
    help="Only flows that write to these clusters, as with this option of the job.",
)
ONE_FLOW = click.option(
    "--flow",
    "name",
    metavar="A->B",
    help="The flow; quote it: 'A->B'. Needed only where the file has several.",
)
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of a table."
)
REASON = click.option(
    "--reason",
    default="",
    metavar="TEXT",
    callback=lambda _context, _option, given: given.encode(errors="backslashreplace").decode(),
    help="Why, for the log of the process; may be empty.",
)
JOB_HELP = "The job that runs the flows; mirror is all of them in one."
JOB = click.option(
    "--job",
    type=click.Choice(get_args(Job)),
    default="mirror",
    show_default=True,
    help=JOB_HELP,
)
MODES = click.Choice(get_args(Mode))
FILE_WIDTH = 250  # of a table in a file or pipe, where no name should be broken in two


def known_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Prints a known error on stderr, as JSON with ``--json``, and exits with its code.

    Where spark-submit.sh asks before a start, the error is the last line of the job's log.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ReplicationError as error:
            if kwargs.get("as_json", False):
                echo(json_text(error.document()), err=True)
            else:
                print_failure(error.exit_code, str(error))
            sys.exit(error.exit_code)

    return run


def chosen_flows(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """Returns the enabled flow *name*, or all enabled flows for None."""
    chosen = tuple(flow for flow in config.flows if name in {None, str(flow.flow)})
    if not config.flows and not config.other_flows:
        problem = f"no flow is enabled; set {config.names[0]}.enabled to true"
        raise ConfigError(config.file, [problem])
    if not chosen:
        enabled = ", ".join(str(flow.flow) for flow in config.flows)
        # An unquoted A->B reaches this program as "A-"; the shell writes the output to a file "B".
        hint = f"; quote the name: --flow '{name}>...'" if name and name.endswith("-") else ""
        problem = f"--flow {name!r}: no such enabled flow; enabled flows: {enabled}{hint}"
        raise ConfigError(config.file, [problem])
    return chosen


def chosen_flow(config: MirrorConfig, name: str | None) -> FlowConfig:
    """Returns the enabled flow *name*; for None the only one that is enabled."""
    chosen = chosen_flows(config, name)
    if len(chosen) > 1:
        names = " or ".join(f"--flow '{flow.flow}'" for flow in chosen)
        problem = f"--flow is missing, and several flows are enabled: write {names}"
        raise ConfigError(config.file, [problem])
    return chosen[0]


def chosen_names(config: MirrorConfig, name: str | None) -> tuple[Flow, ...]:
    """Returns what a process of the flow *name* runs, or of all; see `MirrorConfig.names`."""
    return tuple(flow.flow for flow in chosen_flows(config, name)) if name else config.names


def json_text(document: object) -> str:
    """Returns *document* as every command prints JSON."""
    return json.dumps(document, indent=2)


def json_line(document: object) -> str:
    """Returns *document* as one line, for a command that prints one after the other."""
    return json.dumps(document)


def print_json(document: object) -> None:
    """Prints *document*, which must be all that a command prints to stdout."""
    echo(json_text(document))


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Prints *text* in the encoding of the terminal or pipe, which may not know every name.

    Left to itself, click would take an ASCII one for UTF-8.
    """
    click.echo(text, sys.stderr if err else sys.stdout, nl=nl)


def say(line: str, *, err: bool = False) -> None:
    """Prints one line, whatever names of groups and texts of brokers are in it."""
    echo(printable(line), err=err)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table as wide as the terminal, or wide enough for a file.

    A group may be called anything: what looks like markup, or controls a terminal, is shown as it
    is.
    """
    # Imported here because it costs 0.1 s, which commands without a table need not wait for.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=Text(printable(title)))
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)
