"""``retry``: tries now what a flow has set aside."""

from collections.abc import Sequence
from typing import Final

import click

from replication.cli.options import (
    FILE,
    ONE_FLOW,
    REASON,
    chosen_flow,
    known_errors,
    say,
)
from replication.config.file import load_config
from replication.control.retry import aside_of, retry_topics
from replication.errors import UnhealthyError, first_line

LONGEST: Final = 1000
"""Of a reason that is shown: some have a line for each partition, or what a broker says."""


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", "topics", multiple=True, help="Only this one, by its name on the source.")
@click.option("--timeout", default=60, show_default=True, help="Seconds to wait for the attempt.")
@REASON
@known_errors
def retry(
    *,
    file: str,
    name: str | None,
    topics: Sequence[str],
    timeout: int,
    reason: str,
) -> None:
    """Try now what a running flow has set aside.

    The flow tries by itself as well, after pauses that grow to an hour. Once the cause is mended,
    this spares the wait. Ends with exit code 9 if something is still set aside, and says why.
    """
    config = load_config(file)
    flow = chosen_flow(config, name)
    answer = retry_topics(config, flow, topics, timeout, reason)
    if answer is None:
        say(f"no process runs {flow.flow}: the next start tries everything")
    elif (aside := aside_of(answer, topics)) is None:
        say(f"{flow.flow} has tried; the events say what came of it")
    elif not aside:
        say(f"{flow.flow} has tried: {', '.join(topics) or 'all of it'} is no longer set aside")
    else:
        reasons = ((name, first_line(text)[:LONGEST]) for name, text in aside.items())
        lines = "".join(f"\n  - {name}: {reason}" for name, reason in reasons)
        what = "has tried, and still sets aside, as status says with what mends it"
        raise UnhealthyError(f"{flow.flow} {what}:{lines}")
