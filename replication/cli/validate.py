"""``validate``: checks a configuration file without connecting to anything."""

from collections.abc import Sequence
from typing import get_args

import click

from replication.cli.options import FILE, chosen_flows, known_errors
from replication.config.checks import local_state_problem
from replication.config.file import load_config
from replication.errors import ConfigError
from replication.model import Job
from replication.state.job_lock import refuse_second_process


@click.command()
@FILE
@click.option("--master", default="local", help="The Spark master of the job; default: local.")
@click.option("--job", type=click.Choice(get_args(Job)), help="Check that this job can start, too.")
@click.option("--flow", "names", multiple=True, metavar="A->B", help="The flows of that job.")
@known_errors
def validate(file: str, master: str, names: Sequence[str], job: Job | None) -> None:
    """Check FILE without connecting to a cluster.

    With --job, also check that no other process runs that job on the same state directory.
    """
    config = load_config(file)
    if problem := local_state_problem(config.state_dir, master):
        raise ConfigError(config.file, [problem])
    if job is not None:
        chosen = [flow.flow for name in names or (None,) for flow in chosen_flows(config, name)]
        refuse_second_process(config.state_dir, chosen, job)
    for note in config.notes:
        click.echo(f"note: {note}")
    flows = ", ".join(str(flow.flow) for flow in config.flows)
    click.echo(f"{file} is valid: {len(config.clusters)} clusters, flows {flows}")
