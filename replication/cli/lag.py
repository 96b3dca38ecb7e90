"""``lag``: how far each topic's copy is behind."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from replication.cli.flow_lines import clock, count, first_line
from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    chosen_flows,
    echo,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.control.flow_answers import FlowAnswers
from replication.control.lag import behind, flow_lag
from replication.errors import NoAnswerError
from replication.figures.observation import Figures, PartitionFigures, TopicFigures

HEADINGS: Final = ("topic", "state", "lag", "lag s", "records/s", "copied until")
PARTITION_HEADINGS: Final = ("partition", "state", "lag", "lag s", "position", "source end")
UNKNOWN: Final = "-"
TOP: Final = 20


@click.command()
@FILE
@FLOW
@CLUSTERS
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--partitions", is_flag=True, help="Show the worst partitions of each topic.")
@click.option(
    "--top",
    default=TOP,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many topics of a flow, the furthest behind first.",
)
@AS_JSON
@known_errors
def lag(
    *,
    file: str,
    name: str | None,
    clusters: str,
    topics: Sequence[str],
    partitions: bool,
    top: int,
    as_json: bool,
) -> None:
    """Show how far each topic's copy is behind.

    In records and in seconds. The owner of a flow measures it and says it in the status topic.
    What is not known is shown as a dash. Of a flow that is silent, this is what was known last.
    """
    config = load_config(file, clusters)
    with FlowAnswers(config, chosen_flows(config, name)) as answers:
        found = answers.ask()
    if not any(one.heard.word for one in found):
        reasons = "; ".join(f"{one.flow}: {one.heard.why_not}" for one in found)
        raise NoAnswerError(f"no lag is known: {reasons}")
    lags = [flow_lag(one, topics, top) for one in found]
    if as_json:
        print_json({"flows": [one.document() for one in lags]})
        return
    for one in lags:
        flow, chosen = one.answer.flow, one.topics
        say(f"{flow}: {first_line(one.answer)}")
        if chosen and partitions:
            print_table(f"partitions of {flow}", PARTITION_HEADINGS, _partition_rows(chosen))
        elif chosen:
            print_table(f"topics of {flow}", HEADINGS, map(_cells, chosen))
        elif one.answer.heard.word is not None:
            echo("  of its topics nothing is known")


def _cells(row: TopicFigures) -> tuple[str, ...]:
    until = row.figures.get("copied_until_timestamp_seconds")
    return (
        row.topic,
        f"{row.state}: {row.reason}" if row.reason else row.state,
        *_lags(row.figures),
        _shown(row.figures, "records_per_second"),
        UNKNOWN if until is None else clock(until),
    )


def _partition_rows(rows: Sequence[TopicFigures]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        for part in sorted(row.partitions, key=_order, reverse=True):
            ends = (_shown(part.figures, key) for key in ("position", "source_log_end"))
            yield (f"{row.topic}-{part.partition}", part.state, *_lags(part.figures), *ends)


def _order(part: PartitionFigures) -> tuple[float, float]:
    return behind(part.figures)


def _lags(figures: Figures) -> tuple[str, str]:
    seconds = figures.get("lag_seconds")
    return _shown(figures, "lag_records"), UNKNOWN if seconds is None else f"{seconds:.1f}"


def _shown(figures: Figures, name: str) -> str:
    return count(figures[name]) if name in figures else UNKNOWN
