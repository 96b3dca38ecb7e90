"""How a sample of transformed records is printed, and the options for one."""

from collections.abc import Iterator
from typing import Final

import click

from replication.cli.options import print_table, say
from replication.control.sample import MOST_RECORDS, FlowSample, TopicSample, text_of
from replication.spark.transform_samples import Headers, Sampled, ShownRecord

SAMPLE: Final = click.option(
    "--sample",
    "records",
    type=click.IntRange(1, MOST_RECORDS),
    metavar="N",
    help="Also show what transforms make of the last N records of each topic, with content.",
)
SHOWN: Final = 200
"""How much of a value the table shows, in characters; JSON has more."""

_HEADINGS: Final = ("partition", "offset", "outcome", "part", "before", "after")


def print_sample(sample: FlowSample) -> None:
    """Prints the records of each topic, before and after."""
    if not sample.topics:
        say(f"no topic of {sample.flow} has transforms")
    for topic in sample.topics:
        counts = ", ".join(f"{count} {name}" for name, count in topic.counts.items() if count)
        names = ", ".join(topic.transforms)
        title = f"{topic.topic} through {names}: {counts or 'no record'}"
        print_table(title, _HEADINGS, _rows(topic))
    if sample.others:
        say(f"{sample.others} more topics of {sample.flow} have transforms; name one by --topic")


def _rows(topic: TopicSample) -> Iterator[tuple[str, ...]]:
    for one in topic.records:
        place = (str(one.partition.partition), str(one.offset), one.outcome)
        for number, row in enumerate(_parts(one)):
            yield (*place, *row) if number == 0 else ("", "", "", *row)


def _parts(one: Sampled) -> Iterator[tuple[str, str, str]]:
    """Yields the parts that changed; all of a record that did not, or has no copy."""
    before = dict(_texts(one.before))
    after = dict(_texts(one.after)) if one.after else {}
    changed = [part for part in before if one.after and before[part] != after[part]]
    for part in changed or before:
        mark = " (differs)" if part in one.differing else ""
        yield f"{part}{mark}", before[part], after[part] if changed else ""
    if one.error:
        yield "error", "", one.error


def _texts(content: ShownRecord) -> Iterator[tuple[str, str]]:
    yield "key", _cut(text_of(content.key))
    yield "value", _cut(text_of(content.value))
    yield "headers", _cut(_headers(content.headers))


def _headers(headers: Headers) -> str:
    return ", ".join(f"{name}={text_of(value)}" for name, value in headers)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.."
