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
from replication.control.status import End, FlowStatus, OpenTrouble, flow_status, witnessed
from replication.control.witness import Witness, ask_witnesses
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
    """Show which process runs each flow, and which topics are not replicated now, and why.

    The tables answer: what a flow has recorded since a process took it last. Whether that process
    lives, the target is asked: a flow is silent if its process was killed, paused or cut off.
    """
    config = load_config(file, clusters)
    chosen = chosen_flows(config, name)
    with open_reader(config.state_dir, config.hadoop) as state:
        found = [flow_status(flow.flow, state) for flow in chosen]
    # a flow that never ran, or was given back, needs no witness
    doubtful = {one.flow for one in found if one.process and not one.process.released}
    witnesses = ask_witnesses(flow for flow in chosen if flow.flow in doubtful)
    found = [
        witnessed(one, witnesses[one.flow], config.state_dir) if one.flow in witnesses else one
        for one in found
    ]
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
    process, witness = status.process, status.witness
    if process is None:
        return "no process is known to have run it"
    if process.released is not None:
        return f"{process.host} gave it back at {process.released.isoformat(timespec='seconds')}"
    taken = f"{process.host} took it at {process.since.isoformat(timespec='seconds')}"
    if witness is None or status.liveness == "member":
        return f"{taken} and has it"
    return _lost(taken, status, witness)


def _lost(taken: str, status: FlowStatus, witness: Witness) -> str:
    """Returns the line of a flow whose process is not known to live."""
    group = f"group {witness.group} on cluster {witness.cluster}"
    if status.liveness == "unknown":
        return f"unknown: {taken}; whether it lives is not known: {witness.reason}"
    gone = f"{taken}, and was killed, paused or cut off since"
    if status.liveness == "nobody":
        return f"silent: no process holds the lease ({group} has no member); last word: {gone}"
    others = ", ".join(sorted(witness.members or ()))
    return f"silent: {gone}; another process is about to take over ({group} has {others})"


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
