"""Group offsets as the CSV that ``kafka-consumer-groups --reset-offsets --from-file`` takes. Pure.

One line each: ``group,topic,partition,offset``. Names may hold commas in quotes, as Kafka's reader
and RFC 4180 have it.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from replication.errors import ConfigError
from replication.model import TopicPartition

FIELDS = 4


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """Where a group is to go on in one partition."""

    group: str
    partition: TopicPartition
    offset: int


def to_csv(offsets: Iterable[GroupOffset]) -> str:
    """The file's text, sorted by group and partition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for it in sorted(offsets):
        writer.writerow([it.group, *it.partition, it.offset])
    return text.getvalue()


def from_csv(file: str, text: str) -> list[GroupOffset]:
    """The offsets in *text*; blank lines are passed over.

    Args:
        file: For the messages.
        text: The file's content.

    Raises:
        ConfigError: With every line that is wrong.
    """
    found: dict[tuple[str, TopicPartition], GroupOffset] = {}
    problems: list[str] = []
    for number, fields in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not fields:
            continue
        read = _read(fields)
        if isinstance(read, str):
            problems.append(f"line {number}: {read}")
        elif (read.group, read.partition) in found:
            problems.append(f"line {number}: group {read.group} and {read.partition} stand twice")
        else:
            found[read.group, read.partition] = read
    if not found and not problems:
        problems.append("holds no line; write group,topic,partition,offset")
    if problems:
        raise ConfigError(file, problems)
    return list(found.values())


def _read(fields: list[str]) -> GroupOffset | str:
    """The offset of one line, or what is wrong with it."""
    if len(fields) != FIELDS:
        return f"{','.join(fields)!r} has {len(fields)} fields; write group,topic,partition,offset"
    group, topic, partition, offset = (field.strip() for field in fields)
    if not group or not topic:
        return "group and topic must not be empty"
    if not partition.isdecimal() or not offset.isdecimal():
        return f"partition {partition!r} and offset {offset!r} must be whole numbers, 0 or more"
    return GroupOffset(group, TopicPartition(topic, int(partition)), int(offset))
