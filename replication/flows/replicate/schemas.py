"""What happens to schemas while a flow runs: a thread of its own, so that no registry holds it up.

Registries may be slow: the loop, which looks at the lease, never waits for one.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Final, Protocol, TypeVar

from replication.backoff import Backoff
from replication.flows.context import FlowContext
from replication.flows.metadata import SchemaRounds
from replication.flows.replicate.maintain import beside, surviving
from replication.kafka.registry import PATIENCE_SECONDS, Registry, RegistryError
from replication.schemas.values import Part, Version
from replication.spark.wanted_schemas import (
    Answers,
    SchemaName,
    WantedSchema,
    tell_schemas,
    wanted_schemas,
)
from replication.state.schema_rows import read_schema_ids, write_schema_ids
from replication.state.tables import reader_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.schemas import TranslatedSchemas

# Answers records that wait until the target's schema registry has their schema.
#
# A record names the id that the source's registry gave; the desk registers that schema at the
# target, writes a row of ``schema_ids``, and only then tells the executors. Everything that waits
# for one place waits for one answer; other partitions go on, or other tasks where Spark's own
# source reads.

WAIT_SECONDS: Final = 60.0
"""How long a record waits for a registry that does not answer, before it is an event."""

PAUSES: Final = Backoff(1, 15)

AT_ONCE: Final = 96
"""How many are asked for in one look: the records of these wait for the slowest of them."""

SampleRequest = tuple[str, Part, SchemaName | None]
"""A topic of the source, a part of its records, and an id there, or a GUID."""

Outcome = Version | RegistryError | None
"""What registering came to; None where the source's registry does not know the schema."""

Item = TypeVar("Item")
Read = TypeVar("Read")


class Registers(Protocol):
    """Brings a schema to the target's registry."""

    def each(self, ask: Callable[[Item], Read], items: Iterable[Item]) -> list[Read]:
        """Asks for each of *items*, some at the same time, as `Registry.each` does."""

    def register(
        self, number: int, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        """Registers as `replication.upkeep.schemas.TranslatedSchemas` does."""

    def register_guid(
        self, guid: str, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        """Registers as `replication.upkeep.schemas.TranslatedSchemas` does."""


class Executors(Protocol):
    """Executors whose tasks wait for ids."""

    def wanted(self) -> list[WantedSchema]:
        """Returns the records that wait."""

    def tell(self, place: tuple[str, Part], ids: Answers) -> None:
        """Lets them know ids of a remote topic's keys or values."""


class SparkExecutors:
    """Those of the flow's session, once it has started."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow

    def wanted(self) -> list[WantedSchema]:
        """Returns the records that wait."""
        spark = self._context.started_spark
        return wanted_schemas(spark, self._flow) if spark is not None else []

    def tell(self, place: tuple[str, Part], ids: Answers) -> None:
        """Lets them know ids of a remote topic's keys or values."""
        if (spark := self._context.started_spark) is not None:
            tell_schemas(spark, self._flow, place, ids)


class SchemaTranslator:
    """The desk of one flow."""

    def __init__(
        self,
        context: FlowContext,
        schemas: Registers,
        executors: Executors,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executors = executors
        self._context = context
        self._flow = context.config.flow
        self._schemas = schemas
        self._clock = clock
        self._known = context.config.schema_ids
        self._state = context.refused_schemas
        self._since: dict[SampleRequest, float] = {}
        self._failures: dict[SampleRequest, int] = {}
        self._due: dict[SampleRequest, float] = {}
        self._told = set[SampleRequest]()
        self._guids = set[SampleRequest]()  # which were registered, or were an event
        self._unregistered = set[str]()  # topics
        self._refused: dict[str, tuple[SampleRequest, str]] = {}  # by topic, for which record
        self._lock = Lock()

    def look(self) -> None:
        """Answers what waits now, as far as there is an answer."""
        wants = self._executors.wanted()
        with self._lock, self._context.act("schemas") as may:
            if not may:
                return
            found = defaultdict[SampleRequest, list[WantedSchema]](list)
            for want in wants:
                if (topic := self._state.copied.get(want.remote.topic)) is not None:
                    found[topic, want.part, want.id].append(want)
            self._state.waiting = frozenset(topic for topic, _, _ in found)
            for gone in self._since.keys() - found.keys():
                self._forget(gone)
            now = self._clock()
            due = [
                one for one in found if not self._told_again(one) and now >= self._due.get(one, now)
            ]
            asked = due[:AT_ONCE]
            self._since |= {one: self._since.get(one, now) for one in asked}
            for wanted, outcome in self._outcomes(asked).items():
                self._answer(wanted, found[wanted], outcome)

    def again(self, topic: str) -> str | None:
        """Tries again what a topic was set aside for; returns why it is still in vain."""
        with self._lock:
            if topic not in self._refused:
                return None
            wanted, where = self._refused[topic]
            try:
                reason = self._refusal_of(wanted, self._outcomes([wanted])[wanted])
            except RegistryError as error:
                reason = str(error)
            if reason is None:
                del self._refused[topic]
                return None
            return f"{where} cannot be copied: {reason}"

    def _told_again(self, wanted: SampleRequest) -> bool:
        topic, part, number = wanted
        known = self._known.of(topic, part)
        if number in known:
            self._tell(wanted, known)
        elif wanted in self._guids:
            self._tell(wanted, {str(number): str(number)})
        else:
            return False
        return True

    def _outcomes(self, asked: Iterable[SampleRequest]) -> dict[SampleRequest, Outcome]:
        """Registers what is *asked* for, and writes what each id is at the target.

        Ids of one topic follow each other, since the later ones may be compatible with the earlier.
        """
        by_topic = defaultdict[str, list[SampleRequest]](list)
        for wanted in asked:
            by_topic[wanted[0]].append(wanted)
        answers = self._schemas.each(self._registered, by_topic.values())
        found = {wanted: one for some in answers for wanted, one in some.items()}
        ids = {
            (topic, part, number): one
            for (topic, part, number), one in found.items()
            if isinstance(number, int) and isinstance(one, Version)
        }
        if ids:
            write_schema_ids(self._context.tables, self._flow, ids)
        for (topic, part, number), one in ids.items():
            self._known.add(topic, part, number, one.id)
        return found

    def _registered(self, asked: Iterable[SampleRequest]) -> dict[SampleRequest, Outcome]:
        remote = {name: copy for copy, name in self._state.copied.items()}
        found = dict[SampleRequest, Outcome]()
        for topic, part, number in asked:
            try:
                if isinstance(number, str):
                    outcome: Outcome = self._schemas.register_guid(number, topic, part, remote)
                elif number is not None:
                    outcome = self._schemas.register(number, topic, part, remote)
                else:
                    outcome = None
            except RegistryError as error:
                outcome = error
            found[topic, part, number] = outcome
        return found

    def _answer(self, wanted: SampleRequest, records: list[WantedSchema], outcome: Outcome) -> None:
        topic, _, number = wanted
        where = (
            f"the {wanted[1]} of {topic}-{records[0].remote.partition} offset {records[0].offset}"
        )
        try:
            reason = self._refusal_of(wanted, outcome)
        except RegistryError as error:
            self._failures[wanted] = failures = self._failures.get(wanted, 0) + 1
            self._due[wanted] = self._clock() + PAUSES.after(failures)
            if self._clock() - self._since[wanted] < WAIT_SECONDS:
                self._context.log.warning("schemas_failed", topic=topic, text=error)
                return
            text = f"{where} waits for schema id {number}: {error}"
            if wanted not in self._told:
                self._told.add(wanted)
                self._context.tables.record_event(
                    self._flow, "schema-waits", text, reaction="retry", topic=wanted[0]
                )
            if not self._holds_others_up(topic, records):
                return
            reason = str(error)
        if reason is None:
            self._forget(wanted)
            return
        self._refused[topic] = wanted, where
        self._state.add(topic, f"{where} cannot be copied: {reason}")
        self._tell(wanted, {number: None})
        self._forget(wanted)

    def _holds_others_up(self, topic: str, records: Iterable[WantedSchema]) -> bool:
        """Returns whether others wait with *topic*: in its task, or for the end of its batch."""
        if all(record.is_alone for record in records):
            return False
        topics = self._context.metrics.look().copying.topics
        return self._context.config.mode == "drain" or bool(topics.keys() - {topic})

    def _refusal_of(self, wanted: SampleRequest, outcome: Outcome) -> str | None:
        topic, part, number = wanted
        if number is None:
            return (
                f"it carries no schema id, and replication.schemas.unframed is fail; write copy, "
                f"or leave {topic} out of replication.schemas.topics"
            )
        if isinstance(number, str):
            self._note_guid(number, topic, part, outcome)
            self._guids.add(wanted)
            self._tell(wanted, {number: number})
            return None
        if isinstance(outcome, RegistryError):
            if not outcome.is_final:
                raise outcome
            return str(outcome)
        if outcome is None:
            return (
                f"the schema registry of {self._flow.source} knows no schema with its id {number}; "
                f"if these are no ids, leave {topic} out of replication.schemas.topics"
            )
        self._context.log.info("schema_registered", topic=topic, text=f"id {number} is {outcome}")
        self._tell(wanted, self._known.of(topic, part))
        return None

    def _note_guid(self, guid: str, topic: str, part: Part, outcome: Outcome) -> None:
        """Logs what a GUID is at the target, or records once a topic that it is not there.

        The copy is right all the same, so its topic goes on.
        """
        source, target = self._flow.source, self._flow.target
        reason = (
            f"the schema registry of {source} does not know it, or that of {target} gives its "
            "schema another GUID"
        )
        if isinstance(outcome, RegistryError):
            if not outcome.is_final and not outcome.is_unsupported:
                raise outcome
            reason = str(outcome)
        elif outcome is not None:
            text = f"GUID {guid} is {outcome}"
            self._context.log.info("schema_registered", topic=topic, text=text)
            return
        if topic not in self._unregistered:
            self._unregistered.add(topic)
            self._context.tables.record_event(
                self._flow,
                "schema-unregistered",
                f"the header of a {part} of {topic} names the schema {guid}, which is not "
                f"registered at {target}: {reason}; copying goes on, and consumers find it once it "
                f"is registered at {target} by hand",
                reaction="keep",
                topic=topic,
            )

    def _tell(self, wanted: SampleRequest, ids: Answers) -> None:
        topic, part, _ = wanted
        for remote, name in self._state.copied.items():
            if name == topic:
                self._executors.tell((remote, part), ids)

    def _forget(self, wanted: SampleRequest) -> None:
        for memory in (self._since, self._failures, self._due):
            memory.pop(wanted, None)
        self._told.discard(wanted)


LOOK_SECONDS: Final = 0.2
JOIN_SECONDS: Final = 15.0

ROUND_PATIENCE_SECONDS: Final = 300.0
"""How long a question of a round waits for a registry that is asked too often."""


@contextmanager
def kept_schemas(context: FlowContext, stop: threading.Event) -> Iterator[None]:
    """Keeps schemas in step during the block, as ``replication.schemas`` says."""
    config = context.config
    if config.schemas.mode == "none":
        yield
        return
    with ExitStack() as stack:
        flow, schemas = context.config.flow, context.config.schemas
        patience = PATIENCE_SECONDS if context.config.translates else ROUND_PATIENCE_SECONDS
        both = (
            Registry(flow.source, schemas.source_registry, patience=patience),
            Registry(flow.target, schemas.target_registry, patience=patience),
        )
        rounds = None
        for registry in both:
            stack.callback(registry.close)
        if config.translates:
            read_schema_ids(reader_of(context.tables), config.flow, config.schema_ids)
            desk = SchemaTranslator(context, TranslatedSchemas(*both), SparkExecutors(context))
            context.refused_schemas.begin(desk.again)
            look, pause = desk.look, LOOK_SECONDS
        else:
            rounds = SchemaRounds(context, *both)
            rounds.begin(stop)
            look, pause = rounds.look, rounds.interval_seconds

        def turn(_over: threading.Event) -> None:
            with surviving(context, "schemas_failed"):
                look()

        with beside(context, "schemas", turn, (pause, pause), JOIN_SECONDS):
            try:
                yield
                if rounds is not None and config.mode == "drain":
                    rounds.finish(stop)
            finally:
                if rounds is not None:
                    rounds.end()


def schema_topics(context: FlowContext, plan: TopicPlan) -> str:
    """Returns the task property that names the topics of *plan* whose ids are replaced.

    Each is named with its upstream topic, unless transforms change what is read of that.
    """
    config = context.config
    if not config.translates:
        return ""
    topics = config.with_schema_ids(plan.topics)
    context.refused_schemas.copied.update({remote: topic for topic, remote in topics.items()})
    named = [
        f"{remote}:{'' if topic in plan.transforms else topic}" for topic, remote in topics.items()
    ]
    return ",".join([config.schemas.unframed, *sorted(named), ""]) if topics else ""
