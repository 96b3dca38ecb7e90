"""Group offsets as the CSV that ``kafka-consumer-groups --reset-offsets --from-file`` reads. Pure.

Each line is ``group,topic,partition,offset``. A group's name may be any text, also an empty one: it
is quoted where somebody would read it differently, as in RFC 4180 and in Kafka's own reader, which
keeps blanks, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from replication.errors import ConfigError, printable
from replication.model import TopicPartition
from replication.offsets.moved import LARGEST_OFFSET, LARGEST_PARTITION, csv_lines

FIELDS = 4


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """The offset at which a group is to resume in one partition."""

    group: str
    partition: TopicPartition
    offset: int

    def document(self) -> dict[str, object]:
        topic, partition = self.partition
        return {"group": self.group, "topic": topic, "partition": partition, "offset": self.offset}


def to_csv(offsets: Iterable[GroupOffset]) -> str:
    """Returns the file's text, sorted by group and partition."""
    rows = ((one.group, *one.partition, one.offset) for one in sorted(offsets))
    return "".join(f"{_quoted(group)},{topic},{at},{to}\n" for group, topic, at, to in rows)


def _quoted(name: str) -> str:
    # Python's writer leaves names alone that end with a blank, or hold \r beside other line ends.
    is_plain = name and name == name.strip() and not set(name) & set(',"\r\n\ufeff')
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def from_csv(file: str, text: str) -> tuple[list[GroupOffset], list[str]]:
    """Returns the offsets in *text*, and what is wrong with the lines that are left out.

    Args:
        file: The file's name, for error messages.
        text: The file's content, with its line ends as they are. Blank lines are ignored.

    Raises:
        ConfigError: No line has an offset; it names every line.
    """
    offsets: dict[tuple[str, TopicPartition], GroupOffset | None] = {}
    problems: list[str] = []
    for where, fields in csv_lines(text):
        parsed = fields if isinstance(fields, str) else _parse_line(fields)
        if isinstance(parsed, str):
            problems.append(f"{where}: {parsed}")
        elif (parsed.group, parsed.partition) in offsets:
            # which of both is meant nobody knows
            offsets[parsed.group, parsed.partition] = None
            problems.append(
                f"{where}: duplicate entry for group {printable(parsed.group)}, "
                f"{parsed.partition}; none of them counts"
            )
        else:
            offsets[parsed.group, parsed.partition] = parsed
    found = [offset for offset in offsets.values() if offset is not None]
    if not found:
        expected = "file is empty; expected lines of group,topic,partition,offset"
        raise ConfigError(file, problems or [expected])
    return found, problems


def _parse_line(fields: list[str]) -> GroupOffset | str:
    if len(fields) != FIELDS:
        shown = ",".join(fields)[:80]
        return f"{shown!r} has {len(fields)} fields; expected group,topic,partition,offset"
    group, (topic, partition, offset) = fields[0], (field.strip() for field in fields[1:])
    if not topic:
        return "topic must not be empty"
    if not _is_number(partition, LARGEST_PARTITION) or not _is_number(offset, LARGEST_OFFSET):
        return (
            f"partition {partition[:40]!r} and offset {offset[:40]!r} must be whole numbers, 0 or "
            "more, that Kafka can hold"
        )
    return GroupOffset(group, TopicPartition(topic, int(partition)), int(offset))


def _is_number(text: str, largest: int) -> bool:
    is_decimal = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
    return is_decimal and int(text) <= largest
