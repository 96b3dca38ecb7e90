"""``limit``: how much a flow, or some of its topics, may copy a second."""

from typing import Any

import click

from replication.cli.change import Order, carry_out, change_options
from replication.cli.options import known_errors
from replication.config.limits import Limit, LimitError, parse_bytes, parse_records
from replication.control.steer import new_change
from replication.errors import ConfigError


@click.command()
@change_options
@click.option("--bytes", "most_bytes", metavar="20MB", help="At most so many bytes a second.")
@click.option("--records", "most_records", metavar="5000", help="At most so many records a second.")
@click.option("--topic", help="Only for these topics together: a name or a regex.")
@click.option("--none", "no_limit", is_flag=True, help="No limit any more.")
@known_errors
def limit(
    *,
    most_bytes: str | None,
    most_records: str | None,
    topic: str | None,
    no_limit: bool,
    **asked: Any,  # noqa: ANN401 - click's values
) -> None:
    """Limit what a flow copies a second, while it runs.

    The last limit of the flow, or of the same --topic, counts as a whole.
    """
    order = Order(**asked)
    if no_limit == (most_bytes is not None or most_records is not None):
        raise ConfigError("limit", ["write --bytes, --records or both, or --none"])
    try:
        found = Limit(
            topic,
            None if most_bytes is None else parse_bytes(most_bytes),
            None if most_records is None else parse_records(most_records),
        )
        found.check()
    except LimitError as error:
        raise ConfigError("limit", [str(error)]) from None
    items, scope = found.items, topic or ""
    carry_out(
        order,
        lambda steered: new_change(steered.flow, "limit", items, scope=scope, reason=order.reason),
    )
