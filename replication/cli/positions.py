"""``positions``: where each partition of a flow stands."""

from collections.abc import Sequence
from typing import Final

import click

from replication.cli.flow_lines import first_line
from replication.cli.groups import offset_text
from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    chosen_flow,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.control.positions import FlowPosition, flow_positions

HEADINGS: Final = ("partition", "source offset", "target offset", "lag", "map's age", "state")


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@AS_JSON
@known_errors
def positions(*, file: str, name: str | None, topics: Sequence[str], as_json: bool) -> None:
    """Show where each partition of a flow stands.

    The next source offset to copy, where its record is written, and how many source offsets wait,
    by the offset map; how long the map has said so; and what the partition does. A dash is what is
    not known.
    """
    config = load_config(file)
    found = flow_positions(config, chosen_flow(config, name), topics)
    for problem in found.problems:
        say(problem, err=True)
    if as_json:
        print_json(found.document())
        return
    flow = found.answer.flow
    say(f"{flow}: {first_line(found.answer)}")
    print_table(f"positions of {flow}", HEADINGS, map(_cells, found.positions))


def _cells(one: FlowPosition) -> tuple[str, ...]:
    at = one.position
    waiting = f"; a move to {one.waiting.moving.to} waits" if one.waiting else ""
    return (
        str(one.partition),
        offset_text(at.upstream if at else None),
        offset_text(at.downstream if at else None),
        offset_text(one.lag),
        "-" if one.age is None else f"{one.age:.0f} s",
        f"{one.state}{f': {one.reason}' if one.reason else ''}{waiting}",
    )
