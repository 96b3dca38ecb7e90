"""``validate``: checks a configuration file without connecting to anything."""

import click

from replication.cli.options import echo, known_errors
from replication.cli.start_check import AskedStart, asks_of_start
from replication.config.stores import missing_files
from replication.control.clients import clients_of, custom_classes
from replication.control.file_check import start_problems
from replication.deploy.arguments import DRIVER_MEMORY, megabytes
from replication.errors import ConfigError, SetupError
from replication.kafka.client_check import rejected_properties
from replication.kafka.jvm import kafka_jars, open_jvm
from replication.kafka.user_classes import class_problems
from replication.model import is_local_mode


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
