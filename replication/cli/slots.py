"""``slots``: how many task slots a start of the flows needs, and whether it can start at all.

spark-submit.sh waits for it before each start, so it imports neither Spark nor what reads tables.
"""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import click

from replication.cli.options import (
    CLUSTERS,
    FILE,
    JOB,
    MODES,
    chosen_flows,
    chosen_names,
    known_errors,
)
from replication.cli.start_check import check_machine
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.machine import open_files_limit
from replication.control.partitions import partitions_now, partitions_then
from replication.deploy.arguments import driver_memory, megabytes, parse, settings
from replication.errors import SetupError
from replication.kafka.diagnosis import CallError
from replication.model import RECORDS, Job, Mode
from replication.spark.mode import few_files, local_slots, most_continuous, small_heap
from replication.state.job_lock import refuse_second_process

FLOWS_AT_ONCE: Final = 8


@click.command()
@FILE
@click.option("--flow", "names", multiple=True, metavar="A->B", help="Only these flows.")
@CLUSTERS
@JOB
@click.option("--mode", type=MODES, help="Of all flows, instead of replication.mode.")
@click.option(
    "--start", is_flag=True, help="First check that the job can start here, as validate does."
)
@click.option("--standby", is_flag=True, help="With --start: another process may run the job now.")
@click.argument("spark", nargs=-1, metavar="[-- ARGUMENT...]")
@known_errors
def slots(
    file: str,
    names: Sequence[str],
    clusters: str,
    job: Job,
    mode: Mode | None,
    spark: Sequence[str],
    *,
    start: bool,
    standby: bool,
) -> None:
    """Print how many local task slots the flows need.

    After -- come the arguments of spark-submit, of which the driver's memory counts: Real-Time Mode
    needs some for each partition.

    A flow whose cluster does not answer counts as in its last generation: it must not keep the
    other flows from starting.
    """
    config = load_config(file, clusters)
    chosen = names or (None,)
    try:
        given = parse(spark)
        heap_mb = megabytes(driver_memory(given, os.environ))
        task_cpus = int(settings(given).get("spark.task.cpus", "1"))
    except ValueError as error:
        raise SetupError(f"arguments of spark-submit: {error}") from error
    if start:
        check_machine(config, "local", heap_mb, job)
        if not standby:
            started = [flow for name in chosen for flow in chosen_names(config, name)]
            refuse_second_process(config.state_dir, started, job)
    has_flows = job in RECORDS and (config.flows or names)
    flows = [flow for name in chosen for flow in chosen_flows(config, name)] if has_flows else []
    partitions = Counter[Mode]()
    with ThreadPoolExecutor(FLOWS_AT_ONCE) as pool:  # a cluster that is silent delays no other
        for flow, count in zip(flows, pool.map(partial(_partitions, config), flows), strict=True):
            partitions[mode or flow.mode] += count
    if warning := small_heap(partitions, heap_mb):
        click.echo(f"warning: {warning}", err=True)
    files = open_files_limit()
    if problem := few_files(partitions, len(flows), files):
        raise SetupError(problem)
    slots = local_slots(partitions, most_continuous(heap_mb, len(flows), files))
    click.echo(slots * task_cpus)


def _partitions(config: MirrorConfig, flow: FlowConfig) -> int:
    try:
        return partitions_now(flow)
    except CallError as error:
        if not error.is_temporary:
            raise
        click.echo(f"warning: slots of {flow.flow} as in its last generation: {error}", err=True)
    return partitions_then(config, flow)
