"""The command line: ``python -m replication COMMAND``. The rules are elsewhere.

Exit codes are those of `replication.errors`; wrong usage is 2.
"""

import sys
from collections.abc import Sequence

import click
from rich.table import Table

from replication.cli.groups import COMMANDS
from replication.cli.options import FILE, FLOW, JOBS, MODES, chosen_flows, print_table, refusals
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.demo.play import run as run_demo
from replication.errors import ConfigError
from replication.flows.replicate.prepare import look
from replication.kafka.cluster import Cluster
from replication.model import RECORDS, Job, Mode, TopicPartition
from replication.offsets.map import (
    Ahead,
    Bounded,
    Exact,
    NoAnswer,
    Translation,
    translate_back,
)
from replication.offsets.map import translate as translate_forth
from replication.state.job_lock import refuse_second_process
from replication.state.offset_table import OffsetTable
from replication.state.stop_requests import request_stop
from replication.state.tables import local_tables
from replication.topics.topic_plan import TopicPlan


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Kafka-to-Kafka replication on Spark Structured Streaming."""


@main.command()
@FILE
@click.option("--master", default="local", help="The Spark master it is going to run on.")
@click.option("--flow", "names", multiple=True, metavar="A->B", help="The flows --job is about.")
@click.option("--job", type=JOBS, help="Also check that no other process runs this job.")
@refusals
def validate(file: str, master: str, names: Sequence[str], job: Job | None) -> None:
    """Check FILE without starting Spark and without connecting to a cluster."""
    config = load_config(file)
    _refuse_local_state(config, master)
    if job is not None:
        chosen = [it.flow for name in names or (None,) for it in chosen_flows(config, name)]
        refuse_second_process(config.state_dir, chosen, job)
    for note in config.notes:
        click.echo(f"note: {note}")
    flows = ", ".join(str(it.flow) for it in config.flows)
    click.echo(f"{file} is valid: {len(config.clusters)} clusters, flows {flows}")


@main.command()
@FILE
@FLOW
@refusals
def plan(file: str, name: str | None) -> None:
    """Show which topics, partitions and offsets FILE means now, and what would be created."""
    for config in chosen_flows(load_config(file), name):
        with (
            Cluster(config.source.alias, config.source.admin) as source,
            Cluster(config.target.alias, config.target.admin) as target,
        ):
            _print_plan(config, look(config, source, target), source)


@main.command()
@FILE
@FLOW
@click.option("--job", type=JOBS, default="mirror", show_default=True)
@refusals
def slots(file: str, name: str | None, job: Job) -> None:
    """Print how many local task slots FILE's flows want: partitions twice, and bookkeeping."""
    partitions = 0
    for config in chosen_flows(load_config(file), name) if job in RECORDS else ():
        with (
            Cluster(config.source.alias, config.source.admin) as source,
            Cluster(config.target.alias, config.target.admin) as target,
        ):
            partitions += len(look(config, source, target).partitions)
    click.echo(2 * partitions + 8)


@main.command()
@FILE
@click.option("--flow", "name", required=True, metavar="A->B")
@click.option("--topic", required=True, help="The upstream topic.")
@click.option("--partition", required=True, type=click.IntRange(min=0))
@click.option("--offset", required=True, type=click.IntRange(min=0), help="The next one to read.")
@click.option("--back", is_flag=True, help="From the target to the source (failback).")
@refusals
def translate(file: str, name: str, topic: str, partition: int, offset: int, *, back: bool) -> None:
    """Say where a group that is at OFFSET goes on, on the other side."""
    config = load_config(file)
    (flow,) = chosen_flows(config, name)
    with local_tables(config.state_dir) as tables:
        runs = OffsetTable(tables, flow.flow).runs(TopicPartition(topic, partition))
    answer = translate_back(runs, offset) if back else translate_forth(runs, offset)
    click.echo(_sentence(answer))


@main.command()
@FILE
@FLOW
@click.option("--timeout", default=120, show_default=True, help="Seconds to wait for the end.")
@click.option("--job", type=JOBS, default="mirror", show_default=True)
@refusals
def stop(file: str, name: str | None, timeout: int, job: Job) -> None:
    """Ask the running job to end, through the state directory, and wait until it has."""
    config = load_config(file)
    flows = [config.flow for config in chosen_flows(config, name)]
    stopped = request_stop(config.state_dir, flows, timeout, job)
    click.echo("stopped" if stopped else "nothing to stop: no process runs these flows")


@main.command()
@click.option("--keep", is_flag=True, help="Leave clusters and mirror running.")
@click.option("--seconds", default=20, show_default=True, help="How long the producers run.")
@click.option("--mode", type=MODES, default="auto", show_default=True)
@refusals
def demo(*, keep: bool, seconds: int, mode: Mode) -> None:
    """Run two embedded clusters with producers and the mirror between them, and compare both."""
    sys.exit(run_demo(keep=keep, seconds=seconds, mode=mode))


for _command in COMMANDS:
    main.add_command(_command)


def _sentence(answer: Translation) -> str:
    """One line a person and a script can read: the offset first."""
    match answer:
        case Exact(offset):
            return f"{offset} exact"
        case Bounded(offset, reread):
            return f"{offset} at most {reread} records are read again"
        case Ahead(offset, reread):
            return f"{offset} beyond what is replicated; at most {reread} records are read again"
        case NoAnswer(reason, first):
            return f"none: {reason}" + (f"; answers start at {first}" if first is not None else "")


def _refuse_local_state(config: MirrorConfig, master: str) -> None:
    """On a cluster the driver may start anywhere: a local folder would be another one each time."""
    if not master.startswith("local") and config.state_dir.startswith("file:"):
        raise ConfigError(
            config.file,
            [
                (
                    f"state.dir: {config.state_dir} is on one machine, and master is {master}; "
                    "give a directory that every node reaches, such as hdfs:///replication"
                )
            ],
        )


def _print_plan(config: FlowConfig, plan: TopicPlan, source: Cluster) -> None:
    """A table of *plan*, one row a topic."""
    table = Table(title=f"{config.flow} ({config.flow.source} to {config.flow.target})")
    for heading in ("topic", "remote topic", "partitions", "start offsets", "to do"):
        table.add_column(heading)
    starts = source.earliest(plan.partitions)
    if config.auto_offset_reset == "latest":
        starts = source.log_ends(plan.partitions, config.isolation)
    to_create = {it.name for it in plan.create}
    for topic, remote in plan.topics.items():
        mine = [tp for tp in plan.partitions if tp.topic == topic]
        todo = "create" if remote in to_create else ""
        if remote in plan.grow:
            todo = f"grow to {plan.grow[remote]} partitions"
        offsets = " ".join(f"{tp.partition}:{starts[tp]}" for tp in mine)
        table.add_row(topic, remote, str(len(mine)), offsets, todo)
    print_table(table)
    click.echo("Partitions with a position in state.dir go on from there instead.")
    for problem in plan.problems:
        click.echo(f"problem: {problem}", err=True)
