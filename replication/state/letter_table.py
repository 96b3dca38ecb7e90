"""The table ``dead_letters`` for the owner of a flow, who writes it."""

from replication.model import Flow
from replication.offsets.dead_letter import DeadLetter, DeadLetterId
from replication.state.letter_rows import (
    DEAD_LETTERS,
    KeptLetter,
    LetterState,
    letters_of,
    row_of,
)
from replication.state.stored_table import literal
from replication.state.table_reader import StateReader
from replication.state.tables import Tables


class DeadLetterTable:
    """The letters of one flow, for its owner. A table that fails is a `StateError`."""

    def __init__(self, tables: Tables, reader: StateReader, flow: Flow) -> None:
        self._tables = tables
        self._reader = reader
        self._flow = flow

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

    def letters(self) -> dict[DeadLetterId, KeptLetter]:
        """Returns all letters, also those that were copied again."""
        return {one.letter.id: one for one in letters_of(self._reader, self._flow)}
