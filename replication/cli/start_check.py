"""What a command is asked of a start of a job, and what keeps that start from succeeding here."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import click

from replication.cli.options import CLUSTERS, FILE, chosen_flows, chosen_names, echo
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.file_check import start_problems
from replication.control.machine import look, problems, warnings
from replication.errors import ConfigError, SetupError, StateError
from replication.model import RECORDS, Job, is_local_mode
from replication.state.folder_trial import folder_obstacle
from replication.state.job_lock import refuse_second_process
from replication.state.paths import local_path


@dataclass(frozen=True, slots=True)
class AskedStart:
    """A start of a job.

    Args:
        config: The file, with the clusters of the command line.
        names: The flows of the command line; none for all.
        job: None for whatever may run.
    """

    config: MirrorConfig
    names: Sequence[str]
    job: Job | None

    def flows(self) -> list[FlowConfig]:
        """Returns the flows whose records the job copies."""
        if self.job not in RECORDS or not (self.config.flows or self.names):
            return []
        return [flow for name in self.names or (None,) for flow in chosen_flows(self.config, name)]

    def check_machine(self, master: str, heap_mb: int) -> None:
        """Makes sure that a driver can start here with Spark's *master*; prints warnings.

        Raises:
            ConfigError: Something in the file keeps it from that.
            SetupError: Something on this machine does.
            StateError: The state directory takes no files.
        """
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
        """Makes sure that no other process runs the job.

        Raises:
            LeaseError: One does.
        """
        if self.job is not None:
            chosen = self.names or (None,)
            flows = [flow for name in chosen for flow in chosen_names(self.config, name)]
            refuse_second_process(self.config.state_dir, flows, self.job)


def asks_of_start(
    default: Job | None, text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a start, and the command one `AskedStart` for them.

    Args:
        default: The job without the option.
        text: What the help says of the option.
    """

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
