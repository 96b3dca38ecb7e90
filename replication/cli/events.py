"""``events``: what has happened to flows."""

import re
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, get_args

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    chosen_flows,
    echo,
    json_line,
    known_errors,
    print_json,
    say,
)
from replication.config.file import load_config
from replication.control.event_log import LoggedEvent, read_events
from replication.figures.clocks import utc
from replication.model import EventKind

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FOLLOW_SECONDS: Final = 2.0


class Age(click.ParamType[timedelta]):
    """A time before now: ``90s``, ``15m``, ``1h``, ``7d``."""

    name = "AGE"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Returns how long ago *value* is."""
        found = re.fullmatch(r"(\d{1,6})([smhd])", value)
        if found is None:
            self.fail(f"{value!r} is no age; write for example 90s, 15m, 1h or 7d", param, ctx)
        return timedelta(seconds=int(found[1]) * UNITS[found[2]])


@click.command()
@FILE
@FLOW
@CLUSTERS
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(get_args(EventKind)),
    help="Only events of this kind; may be repeated.",
)
@click.option("--since", type=Age(), help="Only events that are not older: 90s, 15m, 1h, 7d.")
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@AS_JSON
@known_errors
def events(
    *,
    file: str,
    name: str | None,
    clusters: str,
    kinds: Sequence[str],
    since: timedelta | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what has happened to flows, the oldest first.

    These are the rows of the table events. Where the tables cannot be read from here, the last
    events that the flows' owners have told. With --follow and --json each line is a JSON document.
    """
    config = load_config(file, clusters)
    flows = chosen_flows(config, name)
    begin = utc(time.time() - since.total_seconds()) if since is not None else None

    def found() -> list[LoggedEvent]:
        rows, note = read_events(config, flows)
        if note and not shown:
            say(f"note: {note}", err=True)
        return [
            row
            for row in rows
            if (not kinds or row.kind in kinds) and (begin is None or row.at >= begin)
        ]

    shown: set[LoggedEvent] = set()
    rows = found()
    if as_json and not follow:
        print_json({"events": [row.document() for row in rows]})
        return
    while True:
        _show((row for row in rows if row not in shown), as_json=as_json)
        if not follow:
            return
        shown.update(rows)
        try:
            time.sleep(FOLLOW_SECONDS)
            rows = found()
        except KeyboardInterrupt:  # which is how it ends
            return


def _show(rows: Iterable[LoggedEvent], *, as_json: bool) -> None:
    for row in rows:
        if as_json:
            echo(json_line(row.document()))
        else:
            say(_line(row))


def _line(row: LoggedEvent) -> str:
    details = dict(row.details)
    topic, partition = details.get("topic"), details.get("partition")
    place = "" if topic is None else f" {topic}" + ("" if partition is None else f"-{partition}")
    group = f" group {details['group']}" if "group" in details else ""
    at = row.at.isoformat(timespec="seconds")
    return f"{at} {row.flow} {row.kind}{place}{group} ({row.reaction}): {row.text}"
