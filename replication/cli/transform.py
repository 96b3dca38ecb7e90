"""``transform``: what a transform would make of records, before it is in the file."""

from collections.abc import Iterable
from typing import Final

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    chosen_flow,
    known_errors,
    print_json,
    say,
)
from replication.cli.plan import print_sample
from replication.cli.with_changes import with_changes
from replication.config.convert import setting_line
from replication.config.file import load_config
from replication.config.transforms import ADD, PREFIX, read_transforms
from replication.config.values import Raw
from replication.control.sample import MOST_RECORDS, TRIED, Wanted, sample_topic
from replication.errors import ConfigError, GuardError
from replication.model import Chain

_START: Final = f"{PREFIX}{TRIED}."


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="A topic of the source, which the flow replicates.")
@click.option("--filter", "where", default="", metavar="SQL", help="Which records are copied.")
@click.option("--key", default="", metavar="SQL", help="The key of the copy.")
@click.option("--value", default="", metavar="SQL", help="The value of the copy.")
@click.option("--headers", default="", metavar="SQL", help="The headers of the copy.")
@click.option("--add-header", multiple=True, metavar="NAME=SQL", help="Add a header.")
@click.option("--remove-header", multiple=True, metavar="NAME", help="Leave headers out.")
@click.option(
    "--unknown", default="", metavar="fail|drop|keep", help="What a filter that is NULL means."
)
@click.option("--nullable", is_flag=True, help="A key, value or headers may become NULL.")
@click.option(
    "--sample",
    "records",
    type=click.IntRange(1, MOST_RECORDS),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the last N records.",
)
@AS_JSON
@known_errors
def transform(
    *,
    file: str,
    name: str | None,
    topic: str,
    where: str,
    key: str,
    value: str,
    headers: str,
    add_header: tuple[str, ...],
    remove_header: tuple[str, ...],
    unknown: str,
    nullable: bool,
    records: int,
    as_json: bool,
) -> None:
    """Show what transforms make of records, before and after.

    Shows the last records of a topic with their content, and copies nothing. The transforms of the
    file come first; without an SQL option they are all. Starts Spark here. Exits with 5 if a
    record would be an error, for which its topic is set aside, or if two evaluations differ.
    """
    given = {"filter": where, "key": key, "value": value, "headers": headers, "unknown": unknown}
    given["nullable"] = "true" if nullable else ""
    settings: dict[str, Raw] = {"topics": (topic,)}
    settings |= {end: text for end, text in given.items() if text}
    settings |= {"headers.remove": remove_header} if remove_header else {}
    is_tried = len(settings) > 1 or add_header
    tried = _tried(settings, add_header) if is_tried else ()
    config = chosen_flow(with_changes(load_config(file)), name)
    sample = sample_topic(config, Wanted(records, topic, tried))
    in_file = {f"{PREFIX}NAME.{end}": raw for end, raw in settings.items() if is_tried}
    if as_json:
        print_json(sample.document() | {"settings": in_file})
    else:
        print_sample(sample)
        if in_file:
            say("in the file, with a name of your own for NAME:")
        for end, raw in in_file.items():
            say(f"  {setting_line(end, raw)}")
    if problems := sample.problems:
        lines = "".join(f"\n  - {text}" for text in problems)
        raise GuardError(f"{topic} would be set aside:{lines}")


def _tried(settings: dict[str, Raw], added: Iterable[str]) -> Chain:
    """Returns the transform of *settings*, to which the headers *added* are added."""
    problems = []
    for text in added:
        header, sign, sql = text.partition("=")
        settings[f"{ADD}{header.strip()}"] = sql.strip()
        problems += [] if sign else [f"--add-header {text!r}: write NAME=SQL"]
    read = read_transforms([TRIED], {f"{_START}{end}": raw for end, raw in settings.items()})
    problems += [f"{_option(key)}: {problem}" for key, problem in read.problems]
    if problems:
        raise ConfigError("transform", problems)
    return read.transforms


def _option(key: str) -> str:
    """Returns the option that gives the value of *key*."""
    end = key.removeprefix(_START)
    if end.startswith(ADD):
        return f"--add-header {end.removeprefix(ADD)}"
    return {"headers.remove": "--remove-header", "topics": "--topic"}.get(end, f"--{end}")
