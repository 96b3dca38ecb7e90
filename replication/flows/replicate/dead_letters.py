"""A record that cannot be copied becomes a dead letter, and its partition goes on behind it.

Only a record that is surely to blame becomes one: the target has rejected it when it was tried
alone, Kafka's producer can never send it, or nobody can read it. Any other suspect is tried alone
first. The offset map passes the record only after its letter is durable; a process that is killed
in between meets the record again, finds the letter, and passes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from replication.config.clients.defaults import most_request_bytes
from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import QueryError
from replication.flows.replicate.letter_box import LetterBox
from replication.flows.replicate.letter_copies import LetterCopies
from replication.flows.replicate.map_writer import MapWriter
from replication.kafka.api import KafkaRecord
from replication.kafka.batches import damaged_batch
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import Reader
from replication.model import Position, TopicPartition
from replication.offsets.dead_letter import DeadLetter, LetterBound, LetterId, Stage
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.positions.originals import NextRecord, Originals
from replication.positions.rejected_records import LATEST_TIMESTAMP_MS, RECORD_OVERHEAD_BYTES
from replication.positions.to_copy import SEARCHED_OFFSETS
from replication.spark.kafka_options import MOST_BUFFER_BYTES, named
from replication.state.offset_rows import Anchor
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

Positions = Mapping[TopicPartition, Position]
TOO_LARGE: Final = "RecordTooLargeException"
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
    """The records of one flow that cannot be copied.

    Args:
        context: The flow.
        map_writer: Passes what has a letter.
        number: Returns the number of the generation.

    Attributes:
        copies: Copies letters again that somebody asks for.
    """

    def __init__(
        self, context: FlowContext, map_writer: MapWriter, number: Callable[[], int]
    ) -> None:
        self._context = context
        self._map_writer = map_writer
        self._number = number
        self._suspected = Counter[tuple[TopicPartition, int]]()
        self._bound = LetterBound(context.config.letters.most)
        self._box = LetterBox(context)
        self.copies = LetterCopies(context, map_writer, self._box)

    @property
    def are_kept(self) -> bool:
        """Whether the flow keeps letters."""
        return self._context.config.letters.kind != "none"

    def pass_by(
        self,
        error: QueryError,
        plan: TopicPlan,
        positions: Positions,
        blamed: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, str]:
        """Keeps the next records of *blamed* partitions, or lets them be tried alone.

        Args:
            error: What ended the generation.
            plan: Its topics; no query replicates them.
            positions: Where they resume.
            blamed: Why, by the partitions whose next record seems to be to blame.

        Returns:
            Those of *blamed* that do not go on, and what became of a letter that was not kept.

        Raises:
            StateError: A table cannot be read or written.
        """
        left = dict(blamed)
        if not self.are_kept or error.machine:
            return left
        known = self._suspected.copy()
        tried = blamed.keys() & positions.keys() & set(plan.partitions)
        for tp in sorted(tried):
            more = self._keeps_from(error, plan, tp, positions[tp])
            left[tp] += more or ""
            if more is None:
                del left[tp]
        suspects = {tp for tp, _ in self._suspected - known}
        if suspects < tried:  # another one has ended the try, and does not end the next one
            self._suspected = known
        return left

    def _keeps_from(
        self, error: QueryError, plan: TopicPlan, tp: TopicPartition, position: Position
    ) -> str | None:
        """Returns what else keeps *tp* from going on; None if it does."""
        try:
            return None if self._goes_on(error, plan, tp, position) else ""
        except ClusterError as second:  # letters of other partitions may be kept
            return f"; no dead letter was kept: {second}"

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
        """Returns what keeps *tp* from going on at *start*, as far as that is certain."""
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
        """Returns whether *found*, the next record of *tp* that is copied, is to blame."""
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
        return f"{TOO_LARGE}: it has {whole} bytes, and the producer sends up to {most}"

    def _letter(self, plan: TopicPlan, tp: TopicPartition, blame: "Blame") -> DeadLetter:
        one = LetterId(tp.topic, plan.source_ids[tp.topic], tp.partition, blame.offset)
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
