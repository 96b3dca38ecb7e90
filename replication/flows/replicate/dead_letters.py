"""A record that cannot be copied becomes a dead letter, and its partition goes on behind it.

Only a record that is surely to blame becomes one: the target has rejected it when it was tried
alone, Kafka's producer can never send it, or nobody can read it. Any other suspect is tried alone
first. The offset map passes the record only after its letter is durable; a process that is killed
in between meets the record again, finds the letter, and passes.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from pyspark.sql import functions as F

from replication.config.client_keys import most_request_bytes
from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import QueryError
from replication.flows.replicate.map_writer import MapWriter
from replication.kafka.api import KafkaRecord
from replication.kafka.diagnosis import TOO_LARGE, CallError
from replication.kafka.internal_topic import LETTER_SETTINGS
from replication.kafka.reader import Reader, damaged_batch
from replication.kafka.single_record import SingleRecord, write_record
from replication.model import NewEvent, NewTopic, Position, TopicPartition
from replication.offsets.copy_rule import Copy, Fingerprint
from replication.offsets.dead_letter import (
    DeadLetter,
    DeadLetterId,
    DeadLetterLimit,
    Stage,
    identity_of,
    letter_of,
)
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor
from replication.positions.expire import (
    LATEST_TIMESTAMP_MS,
    RECORD_OVERHEAD_BYTES,
    SEARCHED_OFFSETS,
    BadRecord,
)
from replication.positions.measure import settled_log_ends
from replication.positions.originals import NextRecord, Originals
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.copies import NO_TIME, copies_of
from replication.spark.kafka_options import (
    MOST_BUFFER_BYTES,
    OWNER_ONLY,
    client_properties,
    named,
    sink_options,
)
from replication.spark.progress import SOURCE_SCHEMA
from replication.state.dead_letters import TABLE, DeadLetterTable, KeptLetter
from replication.state.requests import LOOK_SECONDS
from replication.state.table_reader import Anchor
from replication.state.tables import reader_of
from replication.topics.topic_plan import TopicPlan, copy_rule

# Where the letters of a flow are kept: a topic on the target, or a table; each letter once.
#
# A letter is looked for before it is written, and its row in the table comes last: it says that
# the letter is durable. So a process that is killed anywhere in between writes none twice.


class DeadLetterWriter:
    """The letters of one flow, whose lease this process holds."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self._topic = context.config.letters.letters_topic
        self._table = DeadLetterTable(context.tables, reader_of(context.tables), self._flow)
        self._places: dict[
            tuple[DeadLetterId, bytes], str
        ] = {}  # of letters in the topic, by content
        self._read_until: dict[TopicPartition, int] = {}

    def keep(self, letter: DeadLetter) -> None:
        """Keeps *letter*, unless it is kept; durable when this returns.

        The event comes last, so that it is written whenever the process is killed.
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

    def letters(self) -> dict[DeadLetterId, KeptLetter]:
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

    def say_waits(self, letter: DeadLetterId, reason: str) -> None:
        """Records that *letter* was asked for and is not copied, and why."""
        columns = {**letter.at._asdict(), "offset_from": letter.offset}
        text = f"{letter} is not copied again: {reason}"
        event = NewEvent("dead-letter-not-copied", text, "keep", columns)
        self._context.tables.record_events(self._flow, [event])

    def write(self, record: SingleRecord) -> int:
        """Writes a record to the target while the lease is held; returns its offset."""
        self._context.tables.check()
        config, jvm = self._context.config, self._context.jvm
        return write_record(jvm, config.target.alias, self._properties(), record)

    def _sent(self, letter: DeadLetter) -> str:
        target, config = self._context.target, self._context.config
        if not target.describe([self._topic]):
            new = NewTopic(self._topic, 1, config.replication_factor, LETTER_SETTINGS)
            target.create_topics([new])
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


def _content(letter: DeadLetter) -> tuple[DeadLetterId, bytes]:
    time_ms = letter.timestamp_ms
    copy = Copy(letter.key, letter.value, (*letter.headers, ("", b"%d" % time_ms)), time_ms)
    return letter.id, copy.content


# Copies dead letters to their remote partitions, once their cause is gone and somebody asks.
#
# Only the owner of the flow does, between two generations, since a remote partition has one
# writer. A copy carries the identity of its letter in a header. Each is written when the offset
# map ends at the target's log end. Then its row says so, and the map passes it last, while the
# request is still there. So a process that is killed anywhere in between leaves the copy right
# behind the map's end, where the next start finds it by that header before it looks for positions.

Letters = Mapping[DeadLetterId, KeptLetter]


class DeadLetterRetries:
    """The letters of one flow that are asked for."""

    def __init__(self, context: FlowContext, map_writer: MapWriter, box: DeadLetterWriter) -> None:
        self._context = context
        self._map_writer = map_writer
        self._box = box
        self._look_at = 0.0

    def are_asked_for(self) -> bool:
        """Returns whether anything is to be copied; looks every few seconds."""
        if self._context.config.letters.kind == "none" or time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_SECONDS
        return bool(self._context.letter_requests.find())

    def finish(self, plan: TopicPlan, number: int) -> None:
        """Notes the copies that an owner wrote before it died, behind the end of the map.

        No query replicates *plan*'s topics; *number* is that of the next generation.
        """
        requests = self._context.letter_requests.find()
        planned = set(plan.partitions)
        asked = {one for request in requests for one in request.ids if one.at in planned}
        if not asked:
            return
        letters = self._box.letters()
        copies = {tp: plan.copy_of(tp) for tp in {one.at for one in asked}}
        shared = {copy for tp, copy in copies.items() if plan.is_shared(tp)}
        ends = settled_log_ends(
            self._context.target, list(copies.values()), self._context.started_spark,
            self._context.config.flow, shared=shared,
        ).ends  # fmt: skip
        for tp, copy in copies.items():
            known = self._map_writer.anchors.get(tp)
            if known is None or known.topic_id != plan.source_ids[tp.topic] or copy not in ends:
                continue
            at = known.position
            wanted = {one: letters[one] for one in asked if one in letters and one.at == tp}
            found = self._copies_between(copy, at.downstream, ends[copy], wanted)
            for offset, one in found.items():
                if plan.is_shared(tp) or offset == at.downstream:
                    at = Position(at.upstream, offset + 1)
                    self._note(plan, letters[one], at, number)

    def copy(
        self, plan: TopicPlan, positions: Mapping[TopicPartition, Position], number: int
    ) -> bool:
        """Copies what is asked for of *plan*'s topics, which no query replicates.

        Returns whether there was anything: then *positions*, where they resume, are no longer true.
        """
        requests = self._context.letter_requests.find()
        news = self._context.letter_requests.events(requests)
        self._context.tables.record_events(self._context.config.flow, news)
        at = dict(positions)
        for request in requests:
            letters = self._box.letters()  # of an earlier request some may be copied by now
            for one in request.ids:
                if not self._is_possible(one, plan, letters):
                    self._box.say_waits(one, "it does not wait, or its topic is not replicated now")
            for one in dict.fromkeys(request.ids):
                if not self._is_possible(one, plan, letters) or one.at not in at:
                    continue
                if one.offset < at[one.at].upstream:
                    at[one.at] = self._copy(plan, letters[one], at[one.at], number)
                else:  # killed before the map had passed it, so that it comes in its turn
                    self._box.say_waits(one, "its record is still to be copied")
            self._context.letter_requests.remove([request])
        return bool(requests)

    def _is_possible(self, one: DeadLetterId, plan: TopicPlan, letters: Letters) -> bool:
        is_waiting = one in letters and letters[one].state == "waiting"
        return is_waiting and plan.source_ids.get(one.topic) == one.topic_id

    def _copy(self, plan: TopicPlan, kept: KeptLetter, at: Position, number: int) -> Position:
        """Copies one letter to the end of its remote partition; returns where that ends then."""
        letter = self._box.content(kept)
        if letter is None or not letter.is_read:
            self._box.say_waits(kept.letter.id, "its content is gone, or nobody could read it")
            return at
        try:
            tp, copied = letter.id.at, self._copy_of(letter)
        except SPARK_ERRORS as error:
            self._box.say_waits(letter.id, f"a transform still fails on it: {said(error)}")
            return at
        if copied is None:
            self._box.mark_copied(kept, "nowhere: it is left out")
            return at
        copy = plan.copy_of(tp)
        time_ms = -1 if copied.timestamp_ms is None else copied.timestamp_ms
        # the identity is the last header, as whoever looks for it expects
        headers = (*copied.headers, letter.headers_of_copy()[-1])
        self._write_map(plan, tp, at, number)
        one = SingleRecord(copy, copied.key, copied.value, headers, time_ms)
        try:
            offset = self._box.write(one)
        except CallError as error:
            if error.is_temporary:
                raise
            self._box.say_waits(letter.id, str(error))
            return at
        end = Position(at.upstream, offset + 1)
        self._note(plan, kept, end, number)
        return end

    def _copy_of(self, letter: DeadLetter) -> Copy | None:
        """Returns what the copy of *letter* is by now; None if the flow leaves it out."""
        context, topic = self._context, letter.id.topic
        rule = copy_rule(context.config, {topic})
        if topic not in rule.chains:
            original = KafkaRecord(
                letter.id.offset, letter.timestamp_ms, letter.key, letter.value, letter.headers
            )
            return rule.copy_of(original) if rule.is_copied(original) else None
        row = (
            letter.key, letter.value, topic, letter.id.partition, letter.id.offset,
            letter.timestamp_ms, 0, list(letter.headers),
        )  # fmt: skip
        # as a number: Spark has times that no datetime has
        schema = SOURCE_SCHEMA.replace("timestamp timestamp", "timestamp bigint")
        frame = context.spark.createDataFrame([row], schema)
        timed = frame.withColumn("timestamp", F.timestamp_millis("timestamp"))
        found = copies_of(timed, rule).collect()
        for one in found:
            time_ms = None if one.time_ms == NO_TIME else one.time_ms
            headers = tuple((header.key, header.value) for header in one.headers or ())
            return Copy(one.key, one.value, headers, time_ms)
        return None

    def _note(self, plan: TopicPlan, kept: KeptLetter, end: Position, number: int) -> None:
        """Says in its row that a letter is copied; then lets the offset map pass the copy.

        The map comes last: only behind its end is a copy found whose row was not written.
        """
        tp, copy = kept.letter.id.at, plan.copy_of(kept.letter.id.at)
        self._box.mark_copied(kept, _place(copy, end.downstream - 1))
        self._write_map(plan, tp, end, number)
        self._context.metrics.add_single(tp, end)

    def _write_map(self, plan: TopicPlan, tp: TopicPartition, at: Position, number: int) -> None:
        runs = {tp: [anchor(at)]}
        self._map_writer.write(FinishedRuns(number, runs, plan.source_ids))
        self._map_writer.record(runs, plan.source_ids)
        self._map_writer.placed.discard(tp)
        self._map_writer.anchors[tp] = Anchor(at, plan.source_ids[tp.topic])

    def _copies_between(
        self, copy: TopicPartition, start: int, end: int, wanted: Letters
    ) -> dict[int, DeadLetterId]:
        """Returns the offsets of copies of *wanted* letters in a part of a remote partition.

        Anybody may give a record of the source a header that names a letter, and its copy has that
        header as well: only one that is all that the letter's copy would be is taken for it.
        """
        flow, found = self._context.config.flow, dict[int, DeadLetterId]()
        rule, expected = (
            copy_rule(self._context.config, ()),
            dict[DeadLetterId, Fingerprint | None](),
        )

        def visit(_at: TopicPartition, record: KafkaRecord) -> None:
            one = identity_of(flow, record.headers)
            if one is None or one not in wanted:
                return
            if wanted[one].state == "copied":  # by its row, which has the place of the copy
                is_own = wanted[one].place == _place(copy, record.offset)
            else:
                if one not in expected:
                    expected[one] = self._expected(wanted[one])
                own = expected[one]
                is_own = own is not None and own.equals(rule.copy(record))
            if is_own:
                found[record.offset] = one

        if start < end:
            with Reader(self._context.config.target.consumer, "read_uncommitted") as reader:
                reader.visit({copy: (start, end)}, visit)
        return found

    def _expected(self, kept: KeptLetter) -> Fingerprint | None:
        """Returns what a copy of *kept* is; None if there can be none, or nobody can tell."""
        letter = self._box.content(kept)
        if letter is None or not letter.is_read:
            return None
        try:
            copied = self._copy_of(letter)
        except SPARK_ERRORS:
            return None
        if copied is None:
            return None
        whole = replace(copied, headers=(*copied.headers, letter.headers_of_copy()[-1]))
        return Fingerprint(letter.id.offset, whole.content, whole.timestamp_ms)


def _place(copy: TopicPartition, offset: int) -> str:
    return f"{copy.topic} {copy.partition} {offset}"


Positions = Mapping[TopicPartition, Position]
RECORD_TOO_LARGE: Final = "RecordTooLargeException"
TRIES: Final = 2
"""How often a record that failed among others is tried alone, if that does not tell."""


class Blame(NamedTuple):
    """What keeps a partition from going on, for certain.

    Args:
        stage: Where it fails.
        reason: Why.
        offset: The record's, or the first of a damaged batch.
        end: Where the partition can go on.
        record: None if nobody can read it.
    """

    stage: Stage
    reason: str
    offset: int
    end: int
    record: KafkaRecord | None = None


class DeadLetters:
    """The records of one flow that cannot be copied."""

    def __init__(
        self, context: FlowContext, map_writer: MapWriter, number: Callable[[], int]
    ) -> None:
        self._context = context
        self._map_writer = map_writer
        self._number = number
        self._suspected = Counter[tuple[TopicPartition, int]]()
        self._bound = DeadLetterLimit(context.config.letters.most)
        self._box = DeadLetterWriter(context)
        self.copies = DeadLetterRetries(context, map_writer, self._box)

    @property
    def are_kept(self) -> bool:
        """Whether the flow keeps letters."""
        return self._context.config.letters.kind != "none"

    def pass_by(
        self,
        error: QueryError,
        plan: TopicPlan,
        positions: Positions,
        blamed: Mapping[TopicPartition, BadRecord],
    ) -> dict[TopicPartition, BadRecord]:
        """Keeps the next records of *blamed* partitions, or lets them be tried alone.

        No query replicates *plan*. *blamed* says why, by the partitions whose next record seems to
        be to blame. Returns those that do not go on, and what became of a letter that was not kept.
        """
        left = dict(blamed)
        if not self.are_kept or error.machine:
            return left
        known = self._suspected.copy()
        tried = blamed.keys() & positions.keys() & set(plan.partitions)
        for tp in sorted(tried):
            try:
                if self._goes_on(error, plan, tp, positions[tp]):
                    del left[tp]
            except ClusterError as second:  # noqa: PERF203 - others may be kept
                text = f"{left[tp].text}; no dead letter was kept: {second}"
                left[tp] = left[tp]._replace(text=text)
        suspects = {tp for tp, _ in self._suspected - known}
        if suspects < tried:  # another one has ended the try, and does not end the next one
            self._suspected = known
        return left

    def _goes_on(
        self, error: QueryError, plan: TopicPlan, tp: TopicPartition, position: Position
    ) -> bool:
        """Returns whether *tp* goes on: behind a letter, or to be tried alone."""
        start = position.upstream
        if self._bound.is_reached(tp, start):
            return False
        blame = self._blame(error, tp, start)
        if isinstance(blame, Blame):
            self._box.keep(self._letter(plan, tp, blame))
            self._pass(plan, tp, position, blame.end)
            return True
        if blame == "no" or self._suspected[tp, start] >= TRIES:
            return False
        self._suspected[tp, start] += 1
        self._map_writer.placed.add(tp)  # hence it is tried alone
        return True

    def _blame(
        self, error: QueryError, tp: TopicPartition, start: int
    ) -> "Blame | Literal['perhaps', 'no']":
        if tp in error.unreadable:
            return self._damage(tp, start, error.unreadable[tp])
        config = self._context.config
        end = self._context.source.log_ends([tp], config.isolation).get(tp, start)
        record = self._record(tp, start, end)
        if record is not None and abs(record.timestamp_ms) > LATEST_TIMESTAMP_MS:
            reason = (
                f"its timestamp is {record.timestamp_ms} ms, and Spark reads times up to "
                f"{LATEST_TIMESTAMP_MS} ms from 1970"
            )
            return Blame("KAFKA_PRODUCE", reason, record.offset, record.offset + 1, record)
        with Originals(self._context, copy_rule(config, {tp.topic})) as originals:
            found = originals.next({tp: (start, min(end, start + SEARCHED_OFFSETS))}).get(tp)
        return "no" if found is None else self._verdict(error, tp, found)

    def _verdict(
        self, error: QueryError, tp: TopicPartition, found: NextRecord
    ) -> "Blame | Literal['perhaps', 'no']":
        at, rejected = found.offset, error.rejected.get(tp)
        stage: Stage = "TRANSFORMATION" if found.failure else "KAFKA_PRODUCE"
        reason = found.failure or self._obstacle(found.size)
        if not reason and (rejected is None or not error.is_alone):
            return "perhaps"
        if not reason and rejected is not None and rejected.offset == at:
            reason = rejected.text
        record = self._record(tp, at, at + 1) if reason else None
        if record is None or record.offset != at:
            return "no"
        return Blame(stage, reason, at, at + 1, record)

    def _record(self, tp: TopicPartition, start: int, end: int) -> KafkaRecord | None:
        """Returns the first record of a span; None if it cannot be read, or there is none."""
        config, found = self._context.config, list[KafkaRecord]()

        def visit(_tp: TopicPartition, record: KafkaRecord) -> bool:
            found.append(record)
            return True

        try:
            with Reader(config.source.consumer, config.isolation) as reader:
                reader.visit({tp: (start, end)}, visit)
        except CallError as error:
            if error.is_temporary:
                raise
        return found[0] if found else None

    def _damage(self, tp: TopicPartition, start: int, text: str) -> "Blame | Literal['no']":
        """Returns the next batch of *tp*, if its checksum is wrong: nobody can read any of it."""
        context = self._context
        consumer = named(context.config.source.consumer, context.config.flow)
        found = damaged_batch(context.jvm, consumer, tp, start)
        if found is None:
            return "no"
        first, last = max(start, found[0]), found[1]
        reason = f"offsets {first} to {last} cannot be read: {text}"
        return Blame("KAFKA_CONSUME", reason, first, last + 1)

    def _obstacle(self, size: int) -> str:
        """Returns why a copy of *size* bytes can never be sent, whatever the target takes."""
        producer = self._context.config.target.producer
        buffer = int(producer.get("buffer.memory", MOST_BUFFER_BYTES))
        most = min(most_request_bytes(producer), buffer)
        whole = RECORD_OVERHEAD_BYTES + size
        if whole <= most:
            return ""
        return f"{RECORD_TOO_LARGE}: it has {whole} bytes, and the producer sends up to {most}"

    def _letter(self, plan: TopicPlan, tp: TopicPartition, blame: "Blame") -> DeadLetter:
        one = DeadLetterId(tp.topic, plan.source_ids[tp.topic], tp.partition, blame.offset)
        flow, record = self._context.config.flow, blame.record
        if record is None:
            return DeadLetter(flow, one, blame.stage, blame.reason, is_read=False)
        content = record.key, record.value, record.headers
        return DeadLetter(flow, one, blame.stage, blame.reason, record.timestamp_ms, *content)

    def _pass(self, plan: TopicPlan, tp: TopicPartition, at: Position, end: int) -> None:
        """Lets *tp* resume at *end*: what lies before it from *at* on is not copied."""
        run = OffsetRun(at.upstream, end, at.downstream, 0)
        self._map_writer.write(FinishedRuns(self._number(), {tp: [run]}, plan.source_ids))
        self._map_writer.record({tp: [run]}, plan.source_ids)
        self._map_writer.anchors[tp] = Anchor(run.end, plan.source_ids[tp.topic])
        self._map_writer.rejected.pop(tp, None)
        self._map_writer.placed.add(tp)  # the next one may be of the same kind
        self._bound.add(tp, at.upstream, end)
