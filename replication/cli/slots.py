"""``slots``: how many task slots a start of the flows needs, and whether it can start at all.

spark-submit.sh waits for it before each start, so it imports neither Spark nor what reads tables.
"""

from collections.abc import Sequence

import click

from replication.cli.options import CLUSTERS, FILE, JOB, chosen_flows, chosen_names, known_errors
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.file_check import start_problems
from replication.control.partitions import partitions_now, partitions_then
from replication.errors import ConfigError
from replication.kafka.diagnosis import CallError
from replication.model import RECORDS, Job
from replication.spark.mode import local_slots
from replication.state.job_lock import refuse_second_process


@click.command()
@FILE
@click.option("--flow", "names", multiple=True, metavar="A->B", help="Only these flows.")
@CLUSTERS
@JOB
@click.option(
    "--start", is_flag=True, help="First check that the job can start here, as validate does."
)
@click.option("--standby", is_flag=True, help="With --start: another process may run the job now.")
@known_errors
def slots(
    file: str, names: Sequence[str], clusters: str, job: Job, *, start: bool, standby: bool
) -> None:
    """Print how many local task slots the flows need.

    A flow whose cluster does not answer counts as in its last generation: it must not keep the
    other flows from starting.
    """
    config = load_config(file, clusters)
    chosen = names or (None,)
    if start:
        if problems := start_problems(config, "local", job):
            raise ConfigError(config.file, problems)
        if not standby:
            started = [flow for name in chosen for flow in chosen_names(config, name)]
            refuse_second_process(config.state_dir, started, job)
    has_flows = job in RECORDS and (config.flows or names)
    flows = [flow for name in chosen for flow in chosen_flows(config, name)] if has_flows else []
    click.echo(local_slots(sum(_partitions(config, flow) for flow in flows)))


def _partitions(config: MirrorConfig, flow: FlowConfig) -> int:
    try:
        return partitions_now(flow)
    except CallError as error:
        if not error.is_temporary:
            raise
        click.echo(f"warning: slots of {flow.flow} as in its last generation: {error}", err=True)
    return partitions_then(config, flow)
