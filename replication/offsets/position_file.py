"""Files that say where partitions are to go on: CSV, or the JSON of Kafka Connect's REST. Pure.

A line of CSV is ``topic,partition,goal``, as ``kafka-consumer-groups --from-file`` has them; a goal
may be any that ``--to`` takes. The JSON is what ``PATCH /connectors/NAME/offsets`` takes of a
MirrorSourceConnector, and what ``positions --json`` prints: its offset is that of the last copied
record, and null resets a partition.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from replication.errors import ConfigError
from replication.model import TopicPartition
from replication.offsets.goals import LARGEST_OFFSET, Goal, parse_goal

FIELDS: Final = 3
LARGEST_PARTITION: Final = 2**31 - 1
CONNECT_FORM: Final = (
    'expected {"partition": {"cluster": ALIAS, "topic": NAME, "partition": NUMBER}, "offset": '
    '{"offset": LAST COPIED} or null}'
)

_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_Entry = tuple[str, TopicPartition | None, Goal | str]
"""Where it stands; the partition; its goal, or what is wrong."""


def read_goals(file: str, text: str, source: str) -> tuple[dict[TopicPartition, Goal], list[str]]:
    """Returns the goals in *text* by upstream partition, and what is wrong with what is left out.

    Args:
        file: The file's name, for error messages.
        text: The file's content.
        source: The alias of the flow's source, which Connect's JSON names.

    Raises:
        ConfigError: No line or entry has a goal; it names every one.
    """
    goals: dict[TopicPartition, Goal | None] = {}
    problems: list[str] = []
    try:
        for where, tp, goal in _json(text, source) if text.lstrip()[:1] == "{" else _csv(text):
            if tp is None or isinstance(goal, str):
                problems.append(f"{where}: {goal}")
            elif tp in goals:
                goals[tp] = None  # which of both is meant nobody knows
                problems.append(f"{where}: {tp} stands there twice; none of them counts")
            else:
                goals[tp] = goal
    except (ValueError, RecursionError) as error:
        raise ConfigError(file, [f"neither CSV nor JSON: {error}"]) from error
    found = {tp: goal for tp, goal in goals.items() if goal is not None}
    if not found:
        raise ConfigError(
            file, problems or ["file is empty; expected lines of topic,partition,goal"]
        )
    return found, problems


def connect_offsets(source: str, positions: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Returns *positions*, the next offsets to copy, as Connect's REST shows a connector's.

    Connect has no word for a partition of which nothing was copied, so that one is absent.
    """
    return [
        {
            "partition": {"cluster": source, "partition": tp.partition, "topic": tp.topic},
            "offset": {"offset": offset - 1},
        }
        for tp, offset in sorted(positions.items())
        if offset > 0
    ]


def csv_lines(text: str) -> Iterator[tuple[str, list[str] | str]]:
    """Yields where each line stands with its fields, or what is wrong with it; no blank lines."""
    reader = csv.reader(io.StringIO(text))
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            yield f"line {reader.line_num}", f"not CSV: {error}"
            continue
        if fields is None:
            return
        if fields:
            yield f"line {reader.line_num}", fields


def _csv(text: str) -> Iterator[_Entry]:
    for where, fields in csv_lines(text):
        if isinstance(fields, str):
            yield where, None, fields
        elif len(fields) != FIELDS:
            shown = ",".join(fields)[:80]
            yield where, None, f"{shown!r} has {len(fields)} fields; expected topic,partition,goal"
        else:
            topic, partition, goal = (field.strip() for field in fields)
            if not topic:
                yield where, None, "the topic is empty"
            elif not _NUMBER.fullmatch(partition) or not _is_partition(int(partition)):
                yield where, None, f"partition {partition[:40]!r} must be its number, 0 or more"
            else:
                yield where, TopicPartition(topic, int(partition)), _goal(goal)


def _goal(text: str) -> Goal | str:
    try:
        return parse_goal(text)
    except ValueError as error:
        return str(error)


def _json(text: str, source: str) -> Iterator[_Entry]:
    body = json.loads(text)
    entries = body.get("offsets")
    if not isinstance(entries, list):
        yield "offsets", None, f"there is no list of this name; {CONNECT_FORM}"
        return
    for number, entry in enumerate(entries, start=1):
        yield f"offset {number}", *_connect_entry(entry, source)


def _connect_entry(entry: object, source: str) -> tuple[TopicPartition | None, Goal | str]:
    where = entry.get("partition") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(where, dict) or "offset" not in entry:
        return None, CONNECT_FORM
    topic, partition, offset = where.get("topic"), where.get("partition", -1), entry["offset"]
    if not isinstance(topic, str) or not topic or not _is_partition(partition):
        return None, CONNECT_FORM
    if where.get("cluster") != source:
        return None, f"cluster {where.get('cluster')!r} is not {source}, the source of the flow"
    tp = TopicPartition(topic, partition)
    if offset is None:
        return tp, Goal("reset")
    last = offset.get("offset") if isinstance(offset, dict) else None
    if type(last) is not int or not -1 <= last < LARGEST_OFFSET:
        return None, CONNECT_FORM
    return tp, Goal("offset", last + 1)


def _is_partition(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_PARTITION
