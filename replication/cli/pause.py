"""``pause`` and ``resume``, ``hold`` and ``release``: let a flow or parts of it stand still."""

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
    _change("pause", Order(**asked), pause_items(topics, partitions))


@click.command()
@change_options
@part_options
@known_errors
def resume(*, topics: Sequence[str], partitions: Sequence[int], **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Let what was paused go on where it stood.

    Resuming a topic resumes its partitions; resuming the flow leaves pauses of topics as they are.
    """
    _change("resume", Order(**asked), pause_items(topics, partitions))


@click.command()
@change_options
@click.argument("operation", metavar="OPERATION")
@known_errors
def hold(*, operation: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Pause a flow for an operation until that is released.

    An operation is a failover, for example. OPERATION is a name for it, such as CHG-117. While any
    operation holds the flow, resume does not let it go on, and a drain of it ends with exit code 5.
    """
    _change("hold", Order(**asked), (operation,))


@click.command()
@change_options
@click.argument("operation", metavar="OPERATION")
@known_errors
def release(*, operation: str, **asked: Any) -> None:  # noqa: ANN401 - click's values
    """Let a flow go on that was held for an operation.

    It goes on where it stood, unless another operation holds it or it is paused as a whole.
    """
    _change("release", Order(**asked), (operation,))


def _change(what: What, order: Order, items: Sequence[str]) -> None:
    carry_out(order, lambda steered: new_change(steered.flow, what, items, reason=order.reason))
