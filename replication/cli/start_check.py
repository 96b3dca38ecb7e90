"""Refuses a start with every problem of the file and of this machine at once."""

import os

import click

from replication.config.tree import MirrorConfig
from replication.control.file_check import start_problems
from replication.control.machine import look, problems, warnings
from replication.errors import ConfigError, SetupError
from replication.model import Job


def check_machine(config: MirrorConfig, master: str, heap_mb: int, job: Job | None) -> None:
    """Makes sure that a driver of *job* can start here with Spark's *master*; prints warnings.

    Raises:
        ConfigError: Something in the file keeps it from that.
        SetupError: Something on this machine does.
    """
    machine = look(config, os.environ)
    for warning in warnings(machine, heap_mb):
        click.echo(f"warning: {warning}", err=True)
    of_file, of_machine = start_problems(config, master, job), problems(machine, master)
    if of_file:
        raise ConfigError(config.file, [*of_file, *of_machine])
    if of_machine:
        lines = "".join(f"\n  - {problem}" for problem in of_machine)
        raise SetupError(f"this machine has {len(of_machine)} problem(s):{lines}")
