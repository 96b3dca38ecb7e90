"""What a file of jobs/ is, under spark-submit. Loads the application and click, nothing else."""

import sys
from collections.abc import Sequence
from typing import get_args

import click

from replication.app.run import run
from replication.log import LogFormat
from replication.model import Job, Mode


def job_command(job: Job) -> click.Command:
    """What a file of jobs/ is, under spark-submit."""

    @click.command(help=f"Run the {job} job for the flows of a configuration file.")
    @click.option("--config", "file", required=True, type=click.Path(dir_okay=False))
    @click.option("--flow", "names", multiple=True, metavar="A->B", help="Only these flows.")
    @click.option("--mode", type=click.Choice(get_args(Mode)), help="Overrides replication.mode.")
    @click.option(
        "--log-format",
        type=click.Choice(get_args(LogFormat)),
        default="text",
        show_default=True,
        help="Log lines as text or as JSON, one object a line.",
    )
    def command(file: str, names: Sequence[str], mode: Mode | None, log_format: LogFormat) -> None:
        sys.exit(run(file, names, mode, job, log_format))

    return command
