"""Positions that an operator moves, of partitions that would go on by themselves. Pure.

A move is compare and set: it counts only while the partition would go on where the operator saw it.
So it is used once, and nothing that was copied meanwhile is left out or repeated by it.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from replication.errors import ConfigError
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.runs import OffsetRun, anchor, runs_between

MoveTo = int | Literal["earliest"]
"""A source offset, or the first that the source has whenever the move is used."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What an operator asks of one partition.

    Args:
        to: Where it is to go on.
        seen: Where it would have gone on then; None if it had no position yet.
        topic_id: The id of the source topic then.
    """

    to: MoveTo
    seen: Position | None
    topic_id: str

    def offset(self, earliest: int) -> int:
        """Returns the source offset that is meant where the source begins at *earliest*."""
        return earliest if self.to == "earliest" else self.to


@dataclass(frozen=True, slots=True)
class OwnPosition:
    """Where a partition would go on by itself.

    Args:
        position: Where.
        is_new: Whether it has no position yet, so that nothing of it is copied.
        runs: What the offset map lacks up to there.
    """

    position: Position
    is_new: bool = False
    runs: tuple[OffsetRun, ...] = ()

    @property
    def seen(self) -> Position | None:
        """What a move of it must have seen."""
        return None if self.is_new else self.position


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """A partition goes on at *position*, because an operator has moved it.

    Args:
        position: Where it goes on; downstream is the target's log end.
        before: Where it would have gone on.
    """

    position: Position
    before: OwnPosition

    @property
    def left_out(self) -> tuple[int, int] | None:
        """The source offsets that are not copied: first and end. None if there are none."""
        first, until = self.before.position.upstream, self.position.upstream
        return (first, until) if first < until else None

    @property
    def copied_again(self) -> tuple[int, int] | None:
        """The source offsets that are copied once more: first and end. None if there are none."""
        first, until = self.position.upstream, self.before.position.upstream
        return (first, until) if first < until and not self.before.is_new else None

    @property
    def effect(self) -> str:
        """What is left out and what is repeated, in words."""
        if span := self.left_out:
            return f"source offsets {span[0]} to {span[1] - 1} are not copied"
        if span := self.copied_again:
            return f"source offsets {span[0]} to {span[1] - 1} are copied again"
        return "nothing is left out or copied again"

    def new_runs(self) -> list[OffsetRun]:
        """Returns what the move adds to the offset map."""
        before, runs = self.before.position, list(self.before.runs)
        if self.before.is_new or before.downstream != self.position.downstream:
            return [*runs, anchor(self.position)]
        return [*runs, *runs_between(before, self.position)]

    def text(self, tp: TopicPartition) -> str:
        """Returns the whole story of *tp*, for an operator."""
        at, was = self.position, self.before.position.upstream
        return (
            f"{tp} would go on at source offset {was}. By decision (moved by an operator) it goes "
            f"on at source offset {at.upstream}, target offset {at.downstream}: {self.effect}"
        )

    def event(self, tp: TopicPartition) -> NewEvent:
        """Returns the event that says what becomes of *tp*."""
        at = self.position.upstream
        first, end = self.left_out or self.copied_again or (at, at)
        columns = {**tp._asdict(), "offset_from": first, "offset_until": end}
        return NewEvent("jumped", self.text(tp), "accept", columns, "moved")


def move(
    moving: Moving, before: OwnPosition, source: Sequence[int], log_end: int, topic_id: str
) -> MovedPosition | str | None:
    """Returns what *moving* makes of a partition, why it is of no use, or None if it is there.

    Args:
        moving: What was asked.
        before: Where the partition goes on by itself.
        source: The source's first offset and its log end.
        log_end: The target's log end.
        topic_id: The id of the source topic now.
    """
    earliest, end = source
    if moving.topic_id != topic_id:
        return "the source topic was created again since the move was asked for"
    to, at = moving.offset(earliest), before.position
    if moving.seen != before.seen:
        if to == at.upstream:
            return None  # a process that was killed has used it, and had not removed it yet
        was = "it had no position yet" if moving.seen is None else _shown(moving.seen)
        is_now = "it has none" if before.is_new else f"it is at {_shown(at)} now"
        return f"its position has moved since: when the move was asked for {was}, and {is_now}"
    if not earliest <= to <= end:
        return f"it was to go on at offset {to}, but the source has offsets {earliest} to {end} now"
    return MovedPosition(Position(to, log_end), before)


def _shown(at: Position) -> str:
    return f"source offset {at.upstream}, target offset {at.downstream}"


def skip_command(flow: Flow, tp: TopicPartition, offset: int) -> str:
    """Returns the command that leaves the record at *offset* out, which cannot be copied."""
    part = f"--topic {tp.topic} --partition {tp.partition} --offset {offset}"
    return f"python -m replication skip FILE --flow '{flow}' {part}"


# Where an operator wants a partition to go on, as written on a command line or in a file.

GOALS: Final = "earliest, latest, an offset, +N, -N, or a time such as 2026-11-01T00:00:00Z"
LARGEST_OFFSET: Final = 2**63 - 1

_SIGNED: Final = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a partition is to go on.

    Args:
        kind: ``reset`` is what ``auto.offset.reset`` says.
        value: An offset; by how many offsets to move; or a time in ms since 1970.
    """

    kind: Literal["earliest", "latest", "offset", "shift", "time", "reset"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What a goal depends on.

    Args:
        position: The source offset at which the partition goes on by itself.
        end: The source's log end.
        at_time: The first source offset of the goal's time or later; None for another goal.
        reset: What ``auto.offset.reset`` says.
    """

    position: int
    end: int
    at_time: int | None
    reset: Literal["earliest", "latest"]


def parse_goal(text: str) -> Goal:
    """Returns the goal that *text* states.

    Raises:
        ValueError: It states none; the error says what to write.
    """
    if text in ("earliest", "latest"):
        return Goal("earliest" if text == "earliest" else "latest")
    if found := _SIGNED.fullmatch(text):
        number = int(found["digits"])
        if number > LARGEST_OFFSET:
            raise ValueError(f"{text} is greater than any offset")
        sign = found["sign"]
        return Goal("shift", -number if sign == "-" else number) if sign else Goal("offset", number)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is none of {GOALS}") from None
    if at.tzinfo is None:
        raise ValueError(f"{text} has no time zone: write {text}Z for UTC, or {text}+01:00")
    milliseconds = int(at.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"{text} is before 1970, where Kafka's times begin")
    return Goal("time", milliseconds)


def offset_of_goal(goal: Goal, place: Place) -> MoveTo:
    """Returns the offset that *goal* means, which need not exist.

    ``earliest`` stays a word: what is there when the move is used is meant.
    """
    kind = place.reset if goal.kind == "reset" else goal.kind
    match kind:
        case "earliest":
            return "earliest"
        case "latest":
            return place.end
        case "shift":
            return place.position + goal.value
        case "time":
            return place.end if place.at_time is None else place.at_time
    return goal.value


# Files that say where partitions are to go on: CSV, or the JSON of Kafka Connect's REST.
#
# A line of CSV is ``topic,partition,goal``, as ``kafka-consumer-groups --from-file`` has them; a
# goal may be any that ``--to`` takes. The JSON is what ``PATCH /connectors/NAME/offsets`` takes of
# a MirrorSourceConnector, and what ``positions --json`` prints: its offset is that of the last
# copied record, and null resets a partition.

FIELDS: Final = 3
LARGEST_PARTITION: Final = 2**31 - 1
CONNECT_FORM: Final = (
    'expected {"partition": {"cluster": ALIAS, "topic": NAME, "partition": NUMBER}, "offset": '
    '{"offset": LAST COPIED} or null}'
)

_WHOLE: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
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
            elif not _WHOLE.fullmatch(partition) or not _is_partition(int(partition)):
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
