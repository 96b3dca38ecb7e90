"""``slots``: how many task slots a start of the flows needs, and whether it can start at all.

spark-submit.sh waits for it before each start, so it imports neither Spark nor what reads tables.
"""

import os
from collections.abc import Mapping, Sequence

import click

from replication.cli.options import JOB_HELP, MODES, echo, known_errors
from replication.cli.start_check import AskedStart, asks_of_start
from replication.control.sizing import size_start
from replication.deploy.arguments import driver_memory, megabytes, parse, settings
from replication.errors import SetupError
from replication.model import Mode


@click.command()
@known_errors
@asks_of_start("mirror", JOB_HELP)
@click.option("--mode", type=MODES, help="Mode of all flows; overrides replication.mode.")
@click.option(
    "--start",
    "checks",
    is_flag=True,
    help="Check first, like validate, that the job can start here.",
)
@click.option("--standby", is_flag=True, help="With --start: another process may run the job now.")
@click.argument("spark", nargs=-1, metavar="[-- ARGUMENT...]")
def slots(
    start: AskedStart, mode: Mode | None, spark: Sequence[str], *, checks: bool, standby: bool
) -> None:
    """Print how many local task slots the flows need.

    With the shared source they follow from the cores and tasks.max, and no cluster is asked. With
    Spark's, they follow from the partitions; a cluster that does not answer counts as in the flow's
    last generation, so that it keeps no other flow from starting.

    The arguments after -- are those of spark-submit; only the driver's memory is used: with Spark's
    source, Real-Time Mode needs some for each partition.
    """
    heap_mb, given = _of_spark(spark)
    if checks:
        start.check_machine("local", heap_mb)
        if not standby:
            start.refuse_second()
    found = size_start(start.config, start.flows(), heap_mb, mode, settings=given)
    for warning in found.warnings():
        echo(f"warning: {warning}", err=True)
    echo(str(found.slots * _task_cpus(given)))


def _of_spark(arguments: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Returns the driver's heap in MB and Spark's settings, by *arguments* of spark-submit.

    Raises:
        SetupError: They are wrong.
    """
    try:
        given = parse(arguments)
        heap_mb = megabytes(driver_memory(given, os.environ))
        return heap_mb, settings(given)
    except ValueError as error:
        raise SetupError(f"arguments of spark-submit: {error}") from error


def _task_cpus(given: Mapping[str, str]) -> int:
    """Returns the cores of a task.

    Raises:
        SetupError: They are no number.
    """
    try:
        return int(given.get("spark.task.cpus", "1"))
    except ValueError as error:
        raise SetupError(f"arguments of spark-submit: spark.task.cpus: {error}") from error
