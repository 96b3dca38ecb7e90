"""Copies dead letters to their remote partitions, once their cause is gone and somebody asks.

Only the owner of the flow does, between two generations, since a remote partition has one writer.
A copy carries the identity of its letter in a header. Each is written when the offset map ends at
the target's log end. Then its row says so, and the map passes it last, while the request is still
there. So a process that is killed anywhere in between leaves the copy right behind the map's end,
where the next start finds it by that header before it looks for positions.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from replication.flows.context import FlowContext
from replication.flows.replicate.letter_box import LetterBox
from replication.flows.replicate.map_writer import MapWriter
from replication.kafka.api import KafkaRecord
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import Reader
from replication.kafka.single_record import SingleRecord
from replication.model import Position, TopicPartition
from replication.offsets.copy_rule import Copy
from replication.offsets.dead_letter import DeadLetter, LetterId, identity_of
from replication.offsets.fingerprint import Fingerprint
from replication.offsets.runs import FinishedRuns, anchor
from replication.positions.settle import settled_log_ends
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.copies import NO_TIME, copies_of
from replication.spark.projection import SOURCE_SCHEMA
from replication.state.letter_requests import LOOK_SECONDS, LetterRequest
from replication.state.letter_rows import KeptLetter
from replication.state.offset_rows import Anchor
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

Letters = Mapping[LetterId, KeptLetter]


class LetterCopies:
    """The letters of one flow that are asked for."""

    def __init__(self, context: FlowContext, map_writer: MapWriter, box: LetterBox) -> None:
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

        Args:
            plan: Topics that no query replicates.
            number: Of the next generation.

        Raises:
            ClusterError: A cluster does not answer.
            StateError: A table cannot be read or written.
        """
        asked = self._asked(plan)
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
        """Copies what is asked for; returns whether there was anything.

        Args:
            plan: Topics that no query replicates.
            positions: Where they resume. After a true answer they have to be found again.
            number: Of the next generation.

        Raises:
            ClusterError: A cluster does not answer.
            StateError: A table cannot be read or written.
        """
        requests = self._context.letter_requests.find()
        news = self._context.letter_requests.events(requests)
        self._context.tables.record_events(self._context.config.flow, news)
        at = dict(positions)
        for request in requests:
            letters = self._box.letters()  # of an earlier request some may be copied by now
            self._say_useless(request, plan, letters)
            for one in dict.fromkeys(request.ids):
                if not self._is_possible(one, plan, letters) or one.at not in at:
                    continue
                if one.offset < at[one.at].upstream:
                    at[one.at] = self._copy(plan, letters[one], at[one.at], number)
                else:  # killed before the map had passed it, so that it comes in its turn
                    text = f"{one}: its record is still to be copied"
                    self._context.log.warning("dead_letter_not_copied", text=text)
            self._context.letter_requests.remove([request])
        return bool(requests)

    def _asked(self, plan: TopicPlan) -> set[LetterId]:
        requests = self._context.letter_requests.find()
        known = set(plan.partitions)
        return {one for request in requests for one in request.ids if one.at in known}

    def _is_possible(self, one: LetterId, plan: TopicPlan, letters: Letters) -> bool:
        is_waiting = one in letters and letters[one].state == "waiting"
        return is_waiting and plan.source_ids.get(one.topic) == one.topic_id

    def _say_useless(self, request: LetterRequest, plan: TopicPlan, letters: Letters) -> None:
        for one in request.ids:
            if not self._is_possible(one, plan, letters):
                text = f"{one} is no letter that waits, or its topic is not replicated now"
                self._context.log.warning("dead_letter_not_copied", text=text)

    def _copy(self, plan: TopicPlan, kept: KeptLetter, at: Position, number: int) -> Position:
        """Copies one letter to the end of its remote partition; returns where that ends then."""
        letter = self._box.content(kept)
        if letter is None or not letter.is_read:
            text = f"{kept.letter.id}: its content is gone, or nobody could read it"
            self._context.log.warning("dead_letter_not_copied", text=text)
            return at
        try:
            tp, copied = letter.id.at, self._copy_of(letter)
        except SPARK_ERRORS as error:
            text = f"{letter.id}: a transform still fails on it: {said(error)}"
            self._context.log.warning("dead_letter_not_copied", text=text)
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
            text = f"{letter.id}: {error}"
            self._context.log.warning("dead_letter_not_copied", text=text)
            return at
        end = Position(at.upstream, offset + 1)
        self._note(plan, kept, end, number)
        return end

    def _copy_of(self, letter: DeadLetter) -> Copy | None:
        """Returns what the copy of *letter* is by now; None if the flow leaves it out."""
        context, original, topic = self._context, _original(letter), letter.id.topic
        rule = copy_rule(context.config, {topic})
        if topic not in rule.chains:
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
        self._context.board.add_single(tp, end)

    def _write_map(self, plan: TopicPlan, tp: TopicPartition, at: Position, number: int) -> None:
        runs = {tp: [anchor(at)]}
        self._map_writer.write(FinishedRuns(number, runs, plan.source_ids))
        self._map_writer.record(runs, plan.source_ids)
        self._map_writer.placed.discard(tp)
        self._map_writer.anchors[tp] = Anchor(at, plan.source_ids[tp.topic])

    def _copies_between(
        self, copy: TopicPartition, start: int, end: int, wanted: Letters
    ) -> dict[int, LetterId]:
        """Returns the offsets of copies of *wanted* letters in a part of a remote partition.

        Anybody may give a record of the source a header that names a letter, and its copy has that
        header as well: only one that is all that the letter's copy would be is taken for it.
        """
        flow, found = self._context.config.flow, dict[int, LetterId]()
        rule, expected = copy_rule(self._context.config, ()), dict[LetterId, Fingerprint | None]()

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


def _original(letter: DeadLetter) -> KafkaRecord:
    return KafkaRecord(
        letter.id.offset, letter.timestamp_ms, letter.key, letter.value, letter.headers
    )
