"""Where the letters of a flow are kept: a topic on the target, or a table; each letter once.

A letter is looked for before it is written, and its row in the table comes last: it says that the
letter is durable. So a process that is killed anywhere in between writes none twice.
"""

from collections.abc import Mapping

from replication.flows.context import FlowContext
from replication.kafka.api import KafkaRecord
from replication.kafka.diagnosis import CallError
from replication.kafka.internal_topic import LETTER_SETTINGS
from replication.kafka.reader import Reader
from replication.kafka.single_record import TOO_LARGE, SingleRecord, write_record
from replication.model import NewEvent, NewTopic, TopicPartition
from replication.offsets.copy_rule import Copy
from replication.offsets.dead_letter import DeadLetter, LetterId, letter_of
from replication.spark.interceptor import OWNER_ONLY
from replication.spark.kafka_options import client_properties, sink_options
from replication.state.letter_rows import TABLE, KeptLetter
from replication.state.letter_table import LetterTable
from replication.state.spark_reader import reader_of


class LetterBox:
    """The letters of one flow, whose lease this process holds."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self._topic = context.config.letters.letters_topic
        self._table = LetterTable(context.tables, reader_of(context.tables), self._flow)
        self._places: dict[tuple[LetterId, bytes], str] = {}  # of letters in the topic, by content
        self._read_until: dict[TopicPartition, int] = {}

    def keep(self, letter: DeadLetter) -> None:
        """Keeps *letter*, unless it is kept; durable when this returns.

        The event comes last, so that it is written whenever the process is killed.

        Raises:
            ClusterError: The target does not take it.
            StateError: The table cannot be read or written.
        """
        place = self._table.place(letter.id)
        if place is None:
            is_sent = self._context.config.letters.kind == "topic"
            place = self._sent(letter) if is_sent else TABLE
            self._table.add(letter, place)
        text = f"{letter.id} is not copied, and kept in {place}: {letter.reason}"
        columns = {**letter.id.at._asdict(), "offset_from": letter.id.offset}
        columns["offset_until"] = letter.id.offset + 1
        event = NewEvent("dead-letter", text, "skip", columns)
        self._context.tables.record_events(self._flow, [event])

    def letters(self) -> dict[LetterId, KeptLetter]:
        """Returns all letters, also those that were copied again."""
        return self._table.letters()

    def content(self, kept: KeptLetter) -> DeadLetter | None:
        """Returns *kept* with its content; None where the topic does not hold it any more."""
        if kept.place == TABLE:
            return kept.letter
        topic, partition, offset = kept.place.rsplit(" ", 2)
        at, found = TopicPartition(topic, int(partition)), list[DeadLetter | None]()
        first = self._context.target.earliest([at]).get(at)
        if first is None or int(offset) < first:
            return None

        def visit(_at: TopicPartition, record: KafkaRecord) -> None:
            found.append(letter_of(self._flow, record.key, record.value, record.headers))

        with Reader(self._context.config.target.consumer, "read_uncommitted") as reader:
            reader.visit({at: (int(offset), int(offset) + 1)}, visit)
        return next((one for one in found if one and one.id == kept.letter.id), None)

    def mark_copied(self, kept: KeptLetter, place: str) -> None:
        """Notes that a letter was copied again, to *place* on the target, and records that."""
        letter = kept.letter
        if kept.state == "waiting":
            self._table.add(letter, place, "copied")
        text = f"{letter.id}, which was kept, is copied to {place}"
        columns = {**letter.id.at._asdict(), "offset_from": letter.id.offset}
        event = NewEvent("dead-letter-copied", text, "retry", columns)
        self._context.tables.record_events(self._flow, [event])

    def write(self, record: SingleRecord) -> int:
        """Writes a record to the target while the lease is held; returns its offset.

        Raises:
            CallError: The target does not take it.
        """
        self._context.tables.check()
        config, jvm = self._context.config, self._context.jvm
        return write_record(jvm, config.target.alias, self._properties(), record)

    def _sent(self, letter: DeadLetter) -> str:
        """Returns the letter's place in the topic; `TABLE` if it is too large for that."""
        self._create()
        if (known := self._place(letter)) is not None:
            return known
        at = TopicPartition(self._topic, 0)
        record = SingleRecord(at, letter.key, letter.value, letter.headers_of_letter())
        try:
            offset = self.write(record)
        except CallError as error:
            if error.code not in TOO_LARGE:
                raise
            return TABLE
        return f"{at.topic} {at.partition} {offset}"

    def _create(self) -> None:
        target, config = self._context.target, self._context.config
        if not target.describe([self._topic]):
            new = NewTopic(self._topic, 1, config.replication_factor, LETTER_SETTINGS)
            target.create_topics([new])

    def _place(self, letter: DeadLetter) -> str | None:
        """Returns where the topic has *letter*; what was read before is known.

        Whoever may write to the topic may write any identity: the content must be the letter's.
        """
        target, topic = self._context.target, self._topic
        parts = [
            TopicPartition(topic, n) for n in range(target.describe([topic])[topic].partitions)
        ]
        firsts, ends = target.earliest(parts), target.log_ends(parts)
        spans = {at: (max(firsts[at], self._read_until.get(at, 0)), ends[at]) for at in parts}

        def visit(at: TopicPartition, record: KafkaRecord) -> None:
            found = letter_of(self._flow, record.key, record.value, record.headers)
            if found is not None:
                self._places[_content(found)] = f"{at.topic} {at.partition} {record.offset}"

        with Reader(self._context.config.target.consumer, "read_uncommitted") as reader:
            reader.visit(spans, visit)
        self._read_until |= ends
        return self._places.get(_content(letter))

    def _properties(self) -> Mapping[str, str]:
        config = self._context.config
        sink = sink_options(config.target.producer, config.flow, intercepted=False)
        own = {
            "interceptor.classes": OWNER_ONLY,
            "max.block.ms": "15000",
            "request.timeout.ms": "15000",
            "delivery.timeout.ms": "25000",
            "linger.ms": "0",
            "buffer.memory": "120000000",
        }
        return {**client_properties(sink), **own}


def _content(letter: DeadLetter) -> tuple[LetterId, bytes]:
    time_ms = letter.timestamp_ms
    copy = Copy(letter.key, letter.value, (*letter.headers, ("", b"%d" % time_ms)), time_ms)
    return letter.id, copy.content
