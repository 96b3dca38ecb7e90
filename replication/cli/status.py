"""``status``: which topics are not replicated now, and why."""

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    chosen_flows,
    known_errors,
    print_json,
    print_table,
)
from replication.config.file import load_config
from replication.control.status import End, FlowStatus, OpenTrouble, flow_status
from replication.state.folder import check_begun
from replication.state.readers import open_reader

HEADINGS = ("topic", "partition", "event", "since", "reason")


@click.command()
@FILE
@FLOW
@CLUSTERS
@AS_JSON
@known_errors
def status(file: str, name: str | None, clusters: str, *, as_json: bool) -> None:
    """Show which topics are not replicated now, and why.

    The tables answer, no cluster is asked: what a flow has recorded since a process took it last.
    """
    config = load_config(file, clusters)
    with open_reader(config.state_dir, config.hadoop) as state:
        found = [flow_status(flow.flow, state) for flow in chosen_flows(config, name)]
    if all(one.process is None for one in found):
        check_begun(config.state_dir)
    if as_json:
        print_json({"flows": [one.document() for one in found]})
        return
    for one in found:
        click.echo(f"{one.flow}: {_process(one)}")
        if one.end:
            click.echo(f"  {_end(one.end)}")
        if one.troubles:
            print_table(f"{one.flow} does not replicate", HEADINGS, map(_cells, one.troubles))


def _process(status: FlowStatus) -> str:
    process = status.process
    if process is None:
        return "no process is known to have run it"
    if process.released is None:
        since = process.since.isoformat(timespec="seconds")
        return f"{process.host} took it at {since} and has not given it back"
    return f"{process.host} gave it back at {process.released.isoformat(timespec='seconds')}"


def _end(end: End) -> str:
    at = end.at.isoformat(timespec="seconds")
    code = "" if end.exit_code is None else f", exit code {end.exit_code}"
    cause = f": {end.cause}" if end.cause else ""
    return f"the last end was at {at}: {end.ending}{code}{cause}"


def _cells(trouble: OpenTrouble) -> tuple[str, ...]:
    return (
        trouble.topic or "every topic",
        "all" if trouble.partition is None else str(trouble.partition),
        trouble.kind,
        trouble.since.isoformat(timespec="seconds"),
        trouble.reason,
    )
