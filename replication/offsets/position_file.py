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


def read_goals(file: str, text: str, source: str) -> dict[TopicPartition, Goal]:
    """Returns the goals in *text*, by upstream partition.

    Args:
        file: The file's name, for error messages.
        text: The file's content.
        source: The alias of the flow's source, which Connect's JSON names.

    Raises:
        ConfigError: Names every line or entry that is wrong.
    """
    entries = _json(text, source) if text.lstrip().startswith("{") else _csv(text)
    goals: dict[TopicPartition, Goal] = {}
    problems: list[str] = []
    try:
        for where, tp, goal in entries:
            if tp is None or isinstance(goal, str):
                problems.append(f"{where}: {goal}")
            elif tp in goals:
                problems.append(f"{where}: {tp} stands there twice")
            else:
                goals[tp] = goal
    except (csv.Error, ValueError, RecursionError) as error:
        raise ConfigError(file, [f"neither CSV nor JSON: {error}"]) from error
    if not goals and not problems:
        problems.append("file is empty; expected lines of topic,partition,goal")
    if problems:
        raise ConfigError(file, problems)
    return goals


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


def _csv(text: str) -> Iterator[_Entry]:
    for number, fields in enumerate(csv.reader(io.StringIO(text)), start=1):
        where = f"line {number}"
        if not fields:
            continue
        if len(fields) != FIELDS:
            shown = ",".join(fields)[:80]
            yield where, None, f"{shown!r} has {len(fields)} fields; expected topic,partition,goal"
            continue
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
