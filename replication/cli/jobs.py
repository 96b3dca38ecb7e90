"""The command of each file in jobs/. Imports only the application and click."""

import sys
from typing import Any, get_args

import click

from replication.app.process import give_back_memory, take_library_output
from replication.app.run import run
from replication.log import LogFormat, LogLevel, log_uncaught
from replication.model import Job, Mode


def job_command(job: Job) -> click.Command:
    """Returns the command that spark-submit runs for *job*."""

    @click.command(help=f"Run the {job} job for the flows of a configuration file.")
    @click.option(
        "--config",
        "file",
        required=True,
        type=click.Path(dir_okay=False),
        help="The configuration file.",
    )
    @click.option("--flow", "flows", multiple=True, metavar="A->B", help="Only these flows.")
    @click.option(
        "--clusters",
        default="",
        metavar="A,B",
        help="Only flows that write to these clusters, as MirrorMaker 2's option of this name.",
    )
    @click.option("--mode", type=click.Choice(get_args(Mode)), help="Overrides replication.mode.")
    @click.option(
        "--log-format",
        type=click.Choice(get_args(LogFormat)),
        default="text",
        show_default=True,
        help="Write log lines as text, or as one JSON object per line.",
    )
    @click.option(
        "--log-level",
        type=click.Choice(get_args(LogLevel)),
        default="info",
        show_default=True,
        help="With debug, also log what only a developer needs.",
    )
    @click.option(
        "--standby", is_flag=True, help="Wait while another process runs a flow, then take over."
    )
    def command(**options: Any) -> None:  # noqa: ANN401 - the arguments of `run`
        take_library_output()
        log_uncaught()
        give_back_memory()
        sys.exit(run(job=job, **options).exit_code)

    return command


def wheel_task() -> None:
    """Runs a job: the wheel's entry point ``replication-job``, for platforms that call a function.

    It takes ``--job``, and the options of that job. Returning is success there, and an exception is
    failure: the platform's own process goes on, so this must not end it.

    Raises:
        RuntimeError: The job failed; the text has the exit code and the cause.
        ValueError: ``--job`` is missing or unknown.
    """
    arguments = sys.argv[1:]
    job = next((one for one in get_args(Job) if arguments[:2] == ["--job", one]), None)
    if job is None:
        raise ValueError(f"the first argument must be --job, one of {', '.join(get_args(Job))}")
    context = job_command(job).make_context("replication-job", arguments[2:])
    outcome = run(job=job, **context.params)
    if outcome.exit_code:
        raise RuntimeError(str(outcome))
