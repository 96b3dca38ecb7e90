"""``accept``: lets a topic go on although records are lost or repeated."""

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    REASON,
    chosen_flow,
    echo,
    known_errors,
    print_json,
    print_table,
)
from replication.config.file import load_config
from replication.control.accept import Acceptance, plan_acceptance
from replication.control.changed import in_force
from replication.control.starts import open_clusters, stored_map
from replication.offsets.guard import StartOffset
from replication.state.accept_requests import request_acceptance
from replication.state.readers import open_reader

HEADINGS = ("partition", "goes on at", "target offset", "effect", "because")


def _start(_context: click.Context, _option: click.Parameter, value: str) -> StartOffset:
    if value.isdecimal():
        return int(value)
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    raise click.BadParameter("write an offset, earliest or latest")


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="Its name on the source.")
@click.option(
    "--partition", type=click.IntRange(min=0), help="One partition; default: all that are refused."
)
@click.option(
    "--from",
    "start",
    required=True,
    metavar="OFFSET",
    callback=_start,
    help="The source offset to go on at: a number, earliest or latest.",
)
@click.option("--execute", is_flag=True, help="Accept it; without it this is a dry run.")
@REASON
@AS_JSON
@known_errors
def accept(
    *,
    file: str,
    name: str | None,
    topic: str,
    partition: int | None,
    start: StartOffset,
    execute: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Let a topic go on despite lost or repeated records.

    Shows what is lost and what is repeated. With --execute, the process that runs the flow goes on
    there within seconds, or the next start does. It holds once, and only if the flow cannot go on
    by itself.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    with open_reader(config.access) as state, open_clusters(flow) as clusters:
        stored = stored_map(config.access, flow, state)
        acceptance = plan_acceptance(flow, clusters, stored, (topic, partition), start)
    _print(acceptance, execute=execute, as_json=as_json)
    if execute:
        request_acceptance(config.access, flow.flow, acceptance.request, reason)
    if not as_json:
        done = "accepted" if execute else "dry run: nothing accepted; pass --execute to accept"
        echo(done)


def _print(acceptance: Acceptance, *, execute: bool, as_json: bool) -> None:
    if as_json:
        print_json({"execute": execute, **acceptance.document()})
        return
    rows = (
        (
            str(tp),
            str(jump.position.upstream),
            str(jump.position.downstream),
            jump.effect,
            jump.refusal.text,
        )
        for tp, jump in acceptance.jumps.items()
    )
    print_table(f"to accept for {acceptance.request.topic}", HEADINGS, rows)
    if acceptance.left:
        names = ", ".join(map(str, acceptance.left))
        echo(f"the topic stays set aside until these can go on as well: {names}", err=True)
