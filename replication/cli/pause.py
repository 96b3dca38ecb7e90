"""``pause`` and ``resume``: let a flow, topics or partitions stand still."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from replication.cli.change import Order, carry_out, change_options
from replication.cli.options import known_errors
from replication.config.changes import What
from replication.control.steer import new_change, pause_items


def part_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say what is paused or resumed; without them it is the whole flow."""
    command = click.option(
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        help="Only this partition of the one --topic; may be repeated.",
    )(command)
    return click.option(
        "--topic", "topics", multiple=True, help="Only these topics: a name or a regex."
    )(command)


@click.command()
@change_options
@part_options
@known_errors
def pause(*, topics: Sequence[str], partitions: Sequence[int], **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Pause a flow, topics or partitions, while it runs.

    Nothing more is copied of them; positions, checkpoints, settings and ACLs go on. Says what is
    near the source's retention.
    """
    _change("pause", Order(**asked), (topics, partitions))


@click.command()
@change_options
@part_options
@known_errors
def resume(*, topics: Sequence[str], partitions: Sequence[int], **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Let what was paused go on where it stood.

    Resuming a topic resumes its partitions; resuming the flow leaves pauses of topics as they are.
    """
    _change("resume", Order(**asked), (topics, partitions))


def _change(what: What, order: Order, parts: tuple[Sequence[str], Sequence[int]]) -> None:
    items = pause_items(*parts)
    carry_out(order, lambda steered: new_change(steered.flow, what, items, reason=order.reason))
