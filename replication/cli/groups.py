"""Commands about consumer groups: where they stand, and moving them over and back."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.table import Table

from replication.cli.options import FILE, chosen_flows, print_table, refusals
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.failover import (
    Chosen,
    GroupStatus,
    Move,
    apply,
    checkpointed_offsets,
    failback_offsets,
    failover_offsets,
    group_standings,
    moves,
)
from replication.errors import ConfigError
from replication.flows.context import FlowContext
from replication.groups.csv_file import from_csv, to_csv
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.mm2.filters import NameFilter
from replication.offsets.map import Bounded, Exact, NoAnswer
from replication.spark.local import local_spark
from replication.state.tables import local_tables

ONE_FLOW = click.option("--flow", "name", required=True, metavar="A->B")
GROUPS = click.option(
    "--group", "groups", multiple=True, help="Only this group; a name or regex, may be repeated."
)
OUTPUT = click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; default: stdout."
)


@click.command()
@FILE
@ONE_FLOW
@GROUPS
@refusals
def groups(file: str, name: str, groups: Sequence[str]) -> None:
    """Show where each group of the source stands, on both sides of a flow."""
    with _opened(file, name) as (config, context):
        standings = group_standings(context, _chosen(config, groups))
    table = Table(title=f"groups of {config.flow}")
    for heading in ("group", "partition", "offset", "lag", "on target", "answer", "there now"):
        table.add_column(heading)
    for it in standings:
        table.add_row(*_cells(it))
    print_table(table)


@click.command()
@FILE
@ONE_FLOW
@GROUPS
@OUTPUT
@click.option(
    "--from",
    "origin",
    type=click.Choice(["map", "checkpoints"]),
    default="map",
    show_default=True,
    help="The source's groups and the offset map now, or the checkpoints on the target, for when "
    "the source is down.",
)
@refusals
def export_offsets(
    file: str, name: str, groups: Sequence[str], output: Path | None, origin: str
) -> None:
    """Write where the source's groups go on, on the target: group,topic,partition,offset.

    The file is what kafka-consumer-groups --reset-offsets --from-file takes.
    """
    if origin == "map":
        with _opened(file, name) as (config, context):
            offsets = failover_offsets(context, _chosen(config, groups))
    else:
        (config,) = chosen_flows(load_config(file), name)
        with Cluster(config.target.alias, config.target.admin) as target:
            offsets = checkpointed_offsets(target, config, _chosen(config, groups))
    _write(to_csv(offsets), output)


@click.command()
@FILE
@ONE_FLOW
@GROUPS
@OUTPUT
@refusals
def failback(file: str, name: str, groups: Sequence[str], output: Path | None) -> None:
    """Write where the target's groups go on, on the source, by the inverse of the offset map."""
    with _opened(file, name) as (config, context):
        offsets, problems = failback_offsets(context, _chosen(config, groups))
    for problem in problems:
        click.echo(problem, err=True)
    _write(to_csv(offsets), output)


@click.command()
@FILE
@click.option("--cluster", required=True, metavar="ALIAS", help="Whose groups are moved.")
@click.option("--offsets", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--execute", is_flag=True, help="Do it; without this only show it.")
@refusals
def apply_offsets(file: str, cluster: str, offsets: Path, *, execute: bool) -> None:
    """Commit the offsets of a CSV file for groups without members; shows them first.

    Nothing is committed if one of the groups has members.
    """
    config = load_config(file)
    try:
        wanted = from_csv(str(offsets), offsets.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(offsets), [f"cannot be read: {error.strerror}"]) from error
    properties = _admin_of(config, cluster)
    with local_spark() as spark, Groups(spark, cluster, properties) as there:
        planned = moves(there, wanted)
        _print_moves(planned, cluster)
        blocked = sorted({it.to.group for it in planned if it.is_blocked})
        if blocked:
            members = "; ".join(f"{it}: {', '.join(there.members(it))}" for it in blocked)
            raise ConfigError(
                str(offsets),
                [f"these groups have members on {cluster}, stop them first: {members}"],
            )
        if execute:
            apply(there, planned)
    click.echo("committed" if execute else "nothing was committed; --execute does it")


COMMANDS = (groups, export_offsets, failback, apply_offsets)


@contextmanager
def _opened(file: str, name: str) -> Iterator[tuple[FlowConfig, FlowContext]]:
    """A flow, its clusters and its tables, through a Spark of its own."""
    config = load_config(file)
    (flow,) = chosen_flows(config, name)
    with (
        local_tables(config.state_dir) as tables,
        Cluster(flow.flow.source, flow.source.admin) as source,
        Cluster(flow.flow.target, flow.target.admin) as target,
    ):
        yield flow, FlowContext(flow, tables.spark, tables, source, target)


def _chosen(config: FlowConfig, groups: Sequence[str]) -> Chosen:
    """The groups asked for, or those the configuration takes."""
    if groups:
        return NameFilter(tuple(groups)).accepts
    return config.groups.accepts


def _admin_of(config: MirrorConfig, alias: str) -> dict[str, str]:
    for flow in config.flows:
        if flow.flow.source == alias:
            return dict(flow.source.admin)
        if flow.flow.target == alias:
            return dict(flow.target.admin)
    known = sorted({alias for it in config.flows for alias in (it.flow.source, it.flow.target)})
    raise ConfigError(
        config.file, [f"--cluster {alias!r}: no cluster of an enabled flow; {', '.join(known)} are"]
    )


def _cells(it: GroupStatus) -> tuple[str, ...]:
    position = it.position
    now = "-" if it.on_target is None else str(it.on_target)
    return (
        position.group,
        str(position.upstream),
        str(position.committed.offset),
        str(it.lag),
        "-" if position.downstream is None else str(position.downstream),
        _answer(position.answer),
        f"{now} {it.state.lower() or 'no such group'}",
    )


def _answer(answer: object) -> str:
    match answer:
        case Exact():
            return "exact"
        case Bounded(_, reread):
            return f"at most {reread} read again"
        case NoAnswer(reason, _):
            return reason
        case _:
            return "beyond what is replicated"


def _print_moves(planned: Sequence[Move], cluster: str) -> None:
    table = Table(title=f"offsets on {cluster}")
    for heading in ("group", "partition", "now", "then", "state"):
        table.add_column(heading)
    for it in planned:
        now = "-" if it.current is None else str(it.current)
        state = it.state.lower() or "no such group"
        table.add_row(it.to.group, str(it.to.partition), now, str(it.to.offset), state)
    print_table(table)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(output), [f"cannot be written: {error.strerror}"]) from error
    click.echo(f"{output}: {len(text.splitlines())} lines", err=True)
