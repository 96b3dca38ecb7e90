"""Consumer groups on both clusters, and how they are moved by hand."""

from collections.abc import Sequence
from pathlib import Path

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    chosen_flow,
    echo,
    json_text,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.config.tree import ClusterConfig, MirrorConfig
from replication.control.changed import in_force
from replication.control.failover import (
    GroupOffsets,
    Moves,
    checkpointed_offsets,
    commit_moves,
    failback_offsets,
    failover_offsets,
    planned_moves,
)
from replication.control.groups import GroupStatus, group_status, open_view, wanted_groups
from replication.errors import ConfigError
from replication.groups.csv_file import GroupOffset, from_csv, to_csv
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.offsets.map import quality

GROUPS = click.option(
    "--group", "groups", multiple=True, help="Only this group: a name or regex; may be repeated."
)
HEADINGS = (
    *("group", "partition", "offset", "lag", "on target", "answer", "committed there"),
    "sync",
)


@click.command()
@FILE
@ONE_FLOW
@GROUPS
@AS_JSON
@known_errors
def groups(*, file: str, name: str | None, groups: Sequence[str], as_json: bool) -> None:
    """Show each group's committed offsets on both clusters.

    Offset and lag are those on the source. "On target" is the translated offset, "answer" says how
    exact it is, "committed there" is what the group has committed on the target, and "sync" says
    why it is that: --json has a sentence.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    with open_view(config, flow) as view:
        table = group_status(view, wanted_groups(flow, groups))
    for problem in table.problems:
        say(problem, err=True)
    if as_json:
        rows = [status.document() for status in table.statuses]
        print_json({"flow": str(flow.flow), "groups": rows, "problems": table.problems})
    else:
        print_table(f"groups of {flow.flow}", HEADINGS, map(_cells, table.statuses))
        refused = (status.sync for status in table.statuses if status.sync.code == "refused")
        for text in dict.fromkeys(sync.text for sync in refused):
            say(f"refused: {text}")


def state_text(state: str) -> str:
    """Returns a group's state for a table."""
    return state.lower() or "no such group"


def offset_text(offset: int | None) -> str:
    """Returns an offset for a table."""
    return "-" if offset is None else str(offset)


def _cells(status: GroupStatus) -> tuple[str, ...]:
    position = status.position
    return (
        position.group,
        str(position.upstream),
        str(position.committed.offset),
        str(status.lag),
        offset_text(position.downstream),
        quality(position.answer),
        # Kafka lists no group that is none of consumers, which a refused one may be
        offset_text(status.on_target)
        if status.sync.code == "refused" and not status.state
        else f"{offset_text(status.on_target)} {state_text(status.state)}",
        status.sync.code,
    )


# ``export-offsets``, ``apply-offsets``, ``failback``: move groups by hand, by way of a file.

OUTPUT = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; default: stdout.",
)
AS_JSON_OFFSETS = click.option("--json", "as_json", is_flag=True, help="Write JSON, not CSV.")


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
    help="map: the groups' current offsets, translated with the offset map. checkpoints: the "
    "checkpoints on the target, for when the source is down.",
)
@AS_JSON_OFFSETS
@known_errors
def export_offsets(
    *,
    file: str,
    name: str | None,
    groups: Sequence[str],
    output: Path | None,
    origin: str,
    as_json: bool,
) -> None:
    """Write the groups' offsets on the target (failover).

    One line for each group and partition: group,topic,partition,offset. Commit them with
    apply-offsets, or with kafka-consumer-groups --reset-offsets --from-file.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    is_wanted = wanted_groups(flow, groups)
    if origin == "map":
        with open_view(config, flow) as view:
            found = failover_offsets(view, is_wanted)
    else:
        with Cluster(flow.target.alias, flow.target.admin) as target:
            found = checkpointed_offsets(target, flow, is_wanted)
    _write(found, flow.target.alias, output, as_json=as_json)


@click.command()
@FILE
@ONE_FLOW
@GROUPS
@OUTPUT
@AS_JSON_OFFSETS
@known_errors
def failback(
    *, file: str, name: str | None, groups: Sequence[str], output: Path | None, as_json: bool
) -> None:
    """Write the groups' offsets on the source (failback).

    The inverse of export-offsets: reads what the groups have committed on the target.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    with open_view(config, flow) as view:
        found = failback_offsets(view, wanted_groups(flow, groups))
    _write(found, flow.source.alias, output, as_json=as_json)


@click.command()
@FILE
@click.option("--cluster", required=True, metavar="ALIAS", help="The cluster of the groups.")
@click.option(
    "--offsets",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The CSV file of export-offsets or failback.",
)
@click.option("--execute", is_flag=True, help="Commit; without it this is a dry run.")
@AS_JSON
@known_errors
def apply_offsets(*, file: str, cluster: str, offsets: Path, execute: bool, as_json: bool) -> None:
    """Commit the offsets of a file for idle groups.

    Shows the changes, and commits them with --execute. Commits nothing if one of the groups has
    members, or if an offset is one that the cluster does not have. A line that cannot be read is
    named and left out; the exit code is 2 then.
    """
    config = load_config(file)
    wanted, left_out = _read(offsets)
    properties = _cluster(config, cluster)
    with (
        Cluster(cluster, properties.admin) as topics,
        Groups(shared_jvm(), cluster, properties.admin) as groups,
    ):
        found = planned_moves(topics, groups, wanted)
        _print_moves(found, execute=execute, as_json=as_json)
        for warning in (*found.doubts.warnings, *(f"left out: {line}" for line in left_out)):
            say(f"warning: {warning}", err=True)
        if found.doubts.problems:
            raise ConfigError(str(offsets), found.doubts.problems)
        if execute:
            commit_moves(groups, found.moves)
    if not as_json:
        done = "committed" if execute else "dry run: nothing committed; pass --execute to commit"
        echo(done)
    if left_out:  # after the others, which one wrong line must not hold up
        raise ConfigError(str(offsets), left_out)


def _cluster(config: MirrorConfig, alias: str) -> ClusterConfig:
    clusters = {
        cluster.alias: cluster for flow in config.flows for cluster in (flow.source, flow.target)
    }
    if alias not in clusters:
        known = ", ".join(sorted(clusters))
        problem = f"--cluster {alias!r}: unknown cluster; enabled flows use {known}"
        raise ConfigError(config.file, [problem])
    return clusters[alias]


def _read(file: Path) -> tuple[list[GroupOffset], list[str]]:
    try:
        return from_csv(str(file), file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"byte {error.start}: not UTF-8; save the file as UTF-8"
        raise ConfigError(str(file), [problem]) from error
    except OSError as error:
        raise ConfigError(str(file), [f"cannot be read: {error.strerror}"]) from error


def _print_moves(found: Moves, *, execute: bool, as_json: bool) -> None:
    if as_json:
        moves = [move.document() for move in found.moves]
        print_json({"cluster": found.cluster, "moves": moves, "execute": execute})
        return
    rows = (
        (
            move.to.group,
            str(move.to.partition),
            offset_text(move.current),
            str(move.to.offset),
            state_text(move.state),
        )
        for move in found.moves
    )
    print_table(f"offsets on {found.cluster}", ("group", "partition", "now", "then", "state"), rows)


def _write(found: GroupOffsets, cluster: str, output: Path | None, *, as_json: bool) -> None:
    for problem in found.problems:
        say(problem, err=True)
    text = json_text(found.document(cluster)) + "\n" if as_json else to_csv(found.offsets)
    if output is None:
        click.echo(text.encode(), nl=False)  # a file, which is UTF-8 whatever the locale
        return
    try:
        output.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(str(output), [f"cannot be written: {error.strerror}"]) from error
    echo(f"{output}: {len(found.offsets)} offsets", err=True)
