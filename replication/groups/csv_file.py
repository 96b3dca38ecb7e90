"""Group offsets as the CSV that ``kafka-consumer-groups --reset-offsets --from-file`` reads. Pure.

Each line is ``group,topic,partition,offset``. A name that holds a comma is quoted, as in RFC 4180
and in Kafka's own reader.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from replication.errors import ConfigError
from replication.model import TopicPartition

FIELDS = 4
LARGEST_PARTITION = 2**31 - 1
LARGEST_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """The offset at which a group is to resume in one partition."""

    group: str
    partition: TopicPartition
    offset: int

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        topic, partition = self.partition
        return {"group": self.group, "topic": topic, "partition": partition, "offset": self.offset}


def to_csv(offsets: Iterable[GroupOffset]) -> str:
    """Returns the file's text, sorted by group and partition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for offset in sorted(offsets):
        writer.writerow([offset.group, *offset.partition, offset.offset])
    return text.getvalue()


def from_csv(file: str, text: str) -> list[GroupOffset]:
    """Returns the offsets in *text*; blank lines are ignored.

    Args:
        file: The file's name, for error messages.
        text: The file's content.

    Raises:
        ConfigError: Names every invalid line.
    """
    offsets: dict[tuple[str, TopicPartition], GroupOffset] = {}
    problems: list[str] = []
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise ConfigError(file, [f"not a CSV file: {error}"]) from error
    for number, fields in enumerate(rows, start=1):
        if not fields:
            continue
        parsed = _parse_line(fields)
        if isinstance(parsed, str):
            problems.append(f"line {number}: {parsed}")
        elif (parsed.group, parsed.partition) in offsets:
            problems.append(
                f"line {number}: duplicate entry for group {parsed.group}, {parsed.partition}"
            )
        else:
            offsets[parsed.group, parsed.partition] = parsed
    if not offsets and not problems:
        problems.append("file is empty; expected lines of group,topic,partition,offset")
    if problems:
        raise ConfigError(file, problems)
    return list(offsets.values())


def _parse_line(fields: list[str]) -> GroupOffset | str:
    """Returns the offset in one line, or what is wrong with it."""
    if len(fields) != FIELDS:
        return (
            f"{','.join(fields)!r} has {len(fields)} fields; expected group,topic,partition,offset"
        )
    group, topic, partition, offset = (field.strip() for field in fields)
    if not group or not topic:
        return "group and topic must not be empty"
    if not _is_number(partition, LARGEST_PARTITION) or not _is_number(offset, LARGEST_OFFSET):
        return (
            f"partition {partition[:40]!r} and offset {offset[:40]!r} must be whole numbers, 0 or "
            "more, that Kafka can hold"
        )
    return GroupOffset(group, TopicPartition(topic, int(partition)), int(offset))


def _is_number(text: str, largest: int) -> bool:
    is_decimal = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
    return is_decimal and int(text) <= largest
