"""``history`` and ``undo``: who has changed a flow, when and why, and taking it back."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import click

from replication.cli.change import Order, carry_out, change_options
from replication.cli.options import (
    AS_JSON,
    FILE,
    FLOW,
    chosen_flows,
    known_errors,
    print_json,
    print_table,
)
from replication.config.changes import Change
from replication.config.file import load_config
from replication.control.changed import changed, steerings
from replication.control.steer import undo_of

HEADINGS: Final = ("flow", "number", "change", "by", "at", "reason", "now")


@click.command()
@FILE
@FLOW
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Only what was changed since then, in UTC.",
)
@AS_JSON
@known_errors
def history(*, file: str, name: str | None, since: datetime | None, as_json: bool) -> None:
    """Show who has changed flows while they ran, when and why.

    The last column says what of it is in force.
    """
    mirror = load_config(file)
    flows = chosen_flows(mirror, name)
    found = steerings(mirror.access, [flow.flow for flow in flows])
    begin = since.isoformat() if since else ""
    changes = [
        (change, found[flow.flow].state_of(change, flow))
        for flow in flows
        for change in found[flow.flow].changes
        if change.at >= begin
    ]
    if as_json:
        print_json({"changes": [{**changed(change), "state": state} for change, state in changes]})
        return
    print_table("changes", HEADINGS, _rows(changes))


@click.command()
@change_options
@click.argument("number", metavar="NUMBER")
@known_errors
def undo(*, number: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Take back a change of a flow, by its number.

    It is as if the change had not been made. An undo has a number, too, and can be undone. Where
    two changes have one number, write the begin of the id after it: 12-3fa.
    """
    order = Order(**asked)
    carry_out(order, lambda steered: undo_of(steered, number, order.reason))


def _rows(changes: list[tuple[Change, str]]) -> Iterator[tuple[str, ...]]:
    for change, state in changes:
        yield (
            str(change.flow), str(change.number), change.text, change.by, change.at,
            change.reason, state,
        )  # fmt: skip
