"""``groups``: each consumer group's committed offsets on both clusters."""

from collections.abc import Sequence

import click

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
from replication.control.changed import in_force
from replication.control.groups import GroupStatus, group_status, wanted_groups
from replication.control.view import open_view
from replication.offsets.wording import quality

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
        print_json({"flow": str(flow.flow), **table.document()})
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
