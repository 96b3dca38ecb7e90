"""The table ``dead_letters``: a row for each letter, and one for each that was copied again.

Rows are appended only; of a letter the newest says how it is. A letter that lies in a topic has its
place in the row, one in the table its content.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from replication.errors import StateError
from replication.log import Log
from replication.model import Flow
from replication.offsets.dead_letter import DeadLetter, DeadLetterId
from replication.state.stored_table import literal, names
from replication.state.table_reader import StateReader

if TYPE_CHECKING:  # it loads pyspark, which the command dead-letters does without
    from replication.state.tables import Tables

log = Log(__name__)

DEAD_LETTERS: Final = "dead_letters"
KEYS: Final = ("topic", "topic_id", "partition", "source_offset")
TABLE: Final = "table"
"""The place of a letter whose content is in its row."""

WAITING: Final = """
    WITH ranked AS (
      SELECT topic, state, at, split_part(place, ' ', 1) AS place,
        row_number() OVER (PARTITION BY {keys} ORDER BY at DESC) AS age
      FROM {{table}} WHERE flow = {flow}
    )
    SELECT topic, place, count(*) AS letters, min(at) AS since
    FROM ranked WHERE age = 1 AND state = 'waiting'
    GROUP BY topic, place ORDER BY topic, place
"""
"""How many letters wait, without their content."""

ATTEMPTS: Final = """
    WITH ranked AS (
      SELECT topic, `partition`, offset_from, at, text,
        row_number() OVER (PARTITION BY topic, `partition`, offset_from ORDER BY at DESC) AS age
      FROM {{table}} WHERE flow = {flow} AND kind = 'dead-letter-not-copied'
    )
    SELECT topic, `partition`, offset_from, at, text FROM ranked WHERE age = 1
"""
"""Of the events, the last attempt to copy each letter that was in vain."""

LetterState = Literal["waiting", "copied"]


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A letter as the table has it.

    Args:
        letter: Without content if it lies in a topic.
        place: `TABLE`, or topic, partition and offset of the letter on the target.
        state: Whether it waits, or was copied again.
        at: When, as ISO 8601.
        attempt: When somebody last wanted it copied in vain, and why; None if nobody did.
    """

    letter: DeadLetter
    place: str
    state: LetterState
    at: str
    attempt: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WaitingLetters:
    """The letters of one topic that were not copied again.

    Args:
        topic: Of the source.
        place: `TABLE`, or the topic on the target that has them.
        letters: How many.
        since: When the oldest was kept, as ISO 8601.
    """

    topic: str
    place: str
    letters: int
    since: str


def waiting_letters(reader: StateReader, flow: Flow) -> tuple[WaitingLetters, ...]:
    """Returns which topics of *flow* have letters that wait, and where; reads no content.

    Raises:
        StateError: The table cannot be read.
    """
    rows = reader.query(DEAD_LETTERS, WAITING.format(keys=names(KEYS), flow=literal(flow)))
    return tuple(
        WaitingLetters(row["topic"], row["place"], row["letters"], row["since"].isoformat())
        for row in rows
    )


def letters_of(reader: StateReader, flow: Flow) -> list[KeptLetter]:
    """Returns the newest state of each letter of *flow*, oldest first.

    Raises:
        StateError: The table cannot be read.
    """
    rows = reader.newest(DEAD_LETTERS, flow, KEYS, ["at"])
    return [_kept(flow, row) for row in sorted(rows, key=lambda row: row["at"])]


def with_attempts(
    reader: StateReader, flow: Flow, letters: Iterable[KeptLetter]
) -> list[KeptLetter]:
    """Returns *letters* of *flow*, each with the last attempt to copy it that was in vain.

    Raises:
        StateError: The events cannot be read.
    """
    rows = reader.query("events", ATTEMPTS.format(flow=literal(flow)))
    found = {
        (row["topic"], row["partition"], row["offset_from"]): (row["at"].isoformat(), row["text"])
        for row in rows
    }
    attempts = ((one, found.get((*one.letter.id.at, one.letter.id.offset))) for one in letters)
    # an earlier one is of a letter of another topic of this name
    return [
        replace(one, attempt=attempt) if attempt and attempt[0] >= one.at else one
        for one, attempt in attempts
    ]


def row_of(letter: DeadLetter, place: str, state: LetterState) -> dict[str, Any]:
    """Returns the row of *letter*, with its content only if its *place* is the table."""
    row = {
        "flow": str(letter.flow), "topic": letter.id.topic, "topic_id": letter.id.topic_id,
        "partition": letter.id.partition, "source_offset": letter.id.offset, "state": state,
        "stage": letter.stage, "reason": letter.reason, "place": place, "is_read": letter.is_read,
        "timestamp_ms": letter.timestamp_ms, "at": datetime.now(timezone.utc),
    }  # fmt: skip
    if place != TABLE or state != "waiting":
        return row
    headers = json.dumps([[name, _text(value)] for name, value in letter.headers])
    return {**row, "key": letter.key, "value": letter.value, "headers": headers}


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _kept(flow: Flow, row: Mapping[str, Any]) -> KeptLetter:
    headers = tuple(
        (name, None if value is None else b64decode(value))
        for name, value in json.loads(row["headers"] or "[]")
    )
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
    letter = DeadLetter(
        flow, DeadLetterId(*(row[name] for name in KEYS)), row["stage"], row["reason"],
        row["timestamp_ms"], key, value, headers, is_read=row["is_read"],
    )  # fmt: skip
    return KeptLetter(
        letter, row["place"], cast("LetterState", row["state"]), row["at"].isoformat()
    )


class DeadLetterTable:
    """The letters of one flow, for its owner. A table that fails is a `StateError`."""

    def __init__(self, tables: "Tables", reader: StateReader, flow: Flow) -> None:
        self._tables = tables
        self._reader = reader
        self._flow = flow
        self._count()

    def _count(self) -> None:
        waiting = None
        try:
            waiting = sum(one.letters for one in waiting_letters(self._reader, self._flow))
        except StateError as error:
            log.bind(self._flow).warning("dead_letters_not_counted", text=error)
        self._tables.counts.set_letters(self._flow, waiting)

    def place(self, letter: DeadLetterId) -> str | None:
        """Returns the place of *letter* as its row has it; None if there is no row."""
        where = (
            f"topic = {literal(letter.topic)} AND topic_id = {literal(letter.topic_id)} "
            f"AND `partition` = {letter.partition:d} AND source_offset = {letter.offset:d}"
        )
        rows = self._reader.rows(DEAD_LETTERS, self._flow, where)
        return next((str(row["place"]) for row in rows), None)

    def add(self, letter: DeadLetter, place: str, state: LetterState = "waiting") -> None:
        """Appends a row; durable when this returns."""
        self._tables.append(DEAD_LETTERS, [row_of(letter, place, state)])
        counts = self._tables.counts
        if (waiting := counts.events(self._flow).letters) is None:
            self._count()
        else:
            counts.set_letters(self._flow, waiting + (1 if state == "waiting" else -1))

    def letters(self) -> dict[DeadLetterId, KeptLetter]:
        """Returns all letters, also those that were copied again."""
        return {one.letter.id: one for one in letters_of(self._reader, self._flow)}
