"""``doctor``: what is wrong before it hurts, with the command that mends it."""

import os
import sys

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.control.doctor.check_result import exit_code, script, worst
from replication.control.doctor.examine import Start, examine, examine_rest
from replication.deploy.arguments import DRIVER_MEMORY, megabytes
from replication.errors import ConfigError, SetupError
from replication.foreign_json import to_json

HEADINGS = ("what", "found", "verdict", "next step")


@click.command()
@FILE
@CLUSTERS
@click.option("--master", default="local", help="The Spark master of the job; default: local.")
@click.option(
    "--fix-commands",
    is_flag=True,
    help="Print only the next steps: commands as lines of a shell, the others as comments.",
)
@AS_JSON
@known_errors
def doctor(*, file: str, clusters: str, master: str, fix_commands: bool, as_json: bool) -> None:
    """Say what would keep the flows from running, or hurts later.

    Creates nothing on a cluster. What cannot be looked at is unknown, with the reason. Exits with 0
    if a start would run, as far as known; else with the code of the first problem: 2, 3, 6 or 7 as
    a start would end, and 5 if a topic would not be replicated.
    """
    memory = os.environ.get("DRIVER_MEMORY") or DRIVER_MEMORY
    try:
        heap_mb = megabytes(memory)
    except ValueError as error:
        raise SetupError(f"DRIVER_MEMORY={memory}: {error}") from error
    try:
        config = load_config(file, clusters, is_whole=True)
    except ConfigError as error:
        found = examine_rest(error, os.environ)
    else:
        start = Start(config=config, master=master, heap_mb=heap_mb, environ=os.environ)
        found = examine(start)
    code = exit_code(found)
    if as_json:
        rows = list(map(to_json, found))
        print_json({"verdict": worst(found), "exit_code": code, "findings": rows})
    elif fix_commands:
        for line in script(found):
            say(line)
    else:
        cells = ((one.what, one.found, one.verdict, one.next_step) for one in found)
        rows_of_table = (tuple(" ".join(cell.split()) for cell in row) for row in cells)
        print_table(f"what a start of {file} would meet", HEADINGS, rows_of_table)
    sys.exit(code)
