"""Whether a file is valid, how many slots its flows need, and whether a start can succeed here."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import click

from replication.cli.options import (
    CLUSTERS,
    FILE,
    JOB_HELP,
    MODES,
    chosen_flows,
    chosen_names,
    echo,
    known_errors,
)
from replication.config.file import load_config, missing_files
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.clients import clients_of, custom_classes
from replication.control.machine import look, problems, start_problems, warnings
from replication.control.sizing import size_start
from replication.deploy.arguments import DRIVER_MEMORY, driver_memory, megabytes, parse, settings
from replication.errors import ConfigError, SetupError, StateError
from replication.kafka.jvm import class_problems, kafka_jars, open_jvm, rejected_properties
from replication.model import RECORDS, Job, Mode, is_local_mode
from replication.state.folder import folder_obstacle, local_path
from replication.state.locks import refuse_second_process

# What a command is asked of a start of a job, and what keeps that start from succeeding here.


@dataclass(frozen=True, slots=True)
class AskedStart:
    """A start of *job*, None for whatever may run, and of the flows *names*, none for all."""

    config: MirrorConfig
    names: Sequence[str]
    job: Job | None

    def flows(self) -> list[FlowConfig]:
        """Returns the flows whose records the job copies."""
        if self.job not in RECORDS or not (self.config.flows or self.names):
            return []
        return [flow for name in self.names or (None,) for flow in chosen_flows(self.config, name)]

    def check_machine(self, master: str, heap_mb: int) -> None:
        """Makes sure that a driver can start here with Spark's *master*; prints warnings."""
        machine = look(self.config, os.environ)
        for warning in warnings(machine, heap_mb):
            echo(f"warning: {warning}", err=True)
        of_file = start_problems(self.config, master, self.job)
        of_machine = problems(machine, master)
        if of_file:
            raise ConfigError(self.config.file, [*of_file, *of_machine])
        if of_machine:
            lines = "".join(f"\n  - {problem}" for problem in of_machine)
            raise SetupError(f"this machine has {len(of_machine)} problem(s):{lines}")
        folder = local_path(self.config.state_dir) if is_local_mode(master) else None
        obstacle, step = folder_obstacle(folder) if folder else ("", "")
        if obstacle:
            raise StateError(f"state.dir {folder} {obstacle}; {step}")

    def refuse_second(self) -> None:
        """Makes sure that no other process runs the job."""
        if self.job is not None:
            chosen = self.names or (None,)
            flows = [flow for name in chosen for flow in chosen_names(self.config, name)]
            refuse_second_process(self.config.state_dir, flows, self.job)


def asks_of_start(
    default: Job | None, text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a start, as one `AskedStart`; *text* is the help of --job."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @FILE
        @click.option("--flow", "names", multiple=True, metavar="A->B", help="Only these flows.")
        @CLUSTERS
        @click.option(
            "--job",
            type=click.Choice(get_args(Job)),
            default=default,
            show_default=default is not None,
            help=text,
        )
        @wraps(command)
        def run(
            *args: Any,  # noqa: ANN401 - the command's own options
            file: str,
            names: Sequence[str],
            clusters: str,
            job: Job | None,
            **kwargs: Any,  # noqa: ANN401 - the same
        ) -> None:
            command(
                AskedStart(load_config(file, clusters, is_whole=True), names, job), *args, **kwargs
            )

        return run

    return add


@click.command()
@known_errors
@asks_of_start(None, "Check that this job can start as well.")
@click.option("--master", default="local", help="The Spark master of the job; default: local.")
@click.option(
    "--here", is_flag=True, help="Look at this machine as well: the driver will run on it."
)
@click.option("--strict", is_flag=True, help="Treat every warning as a problem.")
def validate(start: AskedStart, master: str, *, here: bool, strict: bool) -> None:
    """Check FILE without connecting to a cluster.

    With --job, also check that no other process runs that job on the same state directory.
    """
    config = start.config
    if here:
        start.check_machine(master, megabytes(DRIVER_MEMORY))
    problems = start_problems(config, master, start.job)
    missing = () if is_local_mode(master) else missing_files(config)
    warnings, notes = [*config.warnings, *missing], list(config.notes)
    try:
        with open_jvm(kafka_jars()) as jvm:
            problems += rejected_properties(jvm, clients_of(config))
    except SetupError as error:
        notes.append(f"the clients' properties were not checked by Java's client: {error}")
    try:
        problems += class_problems(custom_classes(config))
    except SetupError as error:
        warnings += [
            f"{one.key}: class {one.name} was not looked for on the class path: {error}"
            for one in dict.fromkeys(custom_classes(config))
        ]
    if strict:
        problems += warnings
    if problems:
        raise ConfigError(config.file, problems)
    start.refuse_second()
    for warning in warnings:
        echo(f"warning: {warning}")
    for note in notes:
        echo(f"note: {note}")
    what = "flows" if config.flows else "heartbeats only, of"
    names = ", ".join(map(str, config.names))
    echo(f"{config.file} is valid: {len(config.clusters)} clusters, {what} {names}")


# ``slots``: how many task slots a start of the flows needs, and whether it can start at all.
#
# spark-submit.sh waits for it before each start, so it imports neither Spark nor what reads
# tables.


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
    try:
        given = parse(spark)
        heap_mb = megabytes(driver_memory(given, os.environ))
        of_spark = settings(given)
    except ValueError as error:
        raise SetupError(f"arguments of spark-submit: {error}") from error
    if checks:
        start.check_machine("local", heap_mb)
        if not standby:
            start.refuse_second()
    found = size_start(start.config, start.flows(), heap_mb, mode, settings=of_spark)
    for warning in found.warnings():
        echo(f"warning: {warning}", err=True)
    try:
        task_cpus = int(of_spark.get("spark.task.cpus", "1"))
    except ValueError as error:
        raise SetupError(f"arguments of spark-submit: spark.task.cpus: {error}") from error
    echo(str(found.slots * task_cpus))
