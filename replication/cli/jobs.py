"""The command of each file in jobs/. Imports only the application and click."""

import sys
from collections.abc import Sequence
from typing import get_args

import click

from replication.app.run import run
from replication.log import LogFormat
from replication.model import Job, Mode


def job_command(job: Job) -> click.Command:
    """The command that spark-submit runs for *job*."""

    @click.command(help=f"Run the {job} job for the flows of a configuration file.")
    @click.option(
        "--config",
        "file",
        required=True,
        type=click.Path(dir_okay=False),
        help="The configuration file.",
    )
    @click.option("--flow", "names", multiple=True, metavar="A->B", help="Only these flows.")
    @click.option("--mode", type=click.Choice(get_args(Mode)), help="Overrides replication.mode.")
    @click.option(
        "--log-format",
        type=click.Choice(get_args(LogFormat)),
        default="text",
        show_default=True,
        help="Write log lines as text, or as one JSON object per line.",
    )
    @click.option(
        "--standby", is_flag=True, help="Wait while another process runs a flow, then take over."
    )
    def command(
        file: str, names: Sequence[str], mode: Mode | None, log_format: LogFormat, *, standby: bool
    ) -> None:
        sys.exit(run(file, names, mode, job, log_format, standby=standby))

    return command
