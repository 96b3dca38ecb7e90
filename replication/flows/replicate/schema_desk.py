"""Answers records that wait until the target's schema registry has their schema.

A record names the id that the source's registry gave; the desk registers that schema at the target,
writes a row of ``schema_ids``, and only then tells the executors. Everything that waits for one
place waits for one answer; other partitions go on, or other tasks where Spark's own source reads.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Final, Protocol

from replication.backoff import Backoff
from replication.flows.context import FlowContext
from replication.kafka.registry import RegistryError
from replication.schemas.values import Part, Version
from replication.spark.wanted_schemas import (
    Answers,
    SchemaName,
    WantedSchema,
    tell_schemas,
    wanted_schemas,
)
from replication.state.schema_rows import write_schema_id

WAIT_SECONDS: Final = 60.0
"""How long a record waits for a registry that does not answer, before it is an event."""

PAUSES: Final = Backoff(1, 15)

Wanted = tuple[str, Part, SchemaName | None]
"""A topic of the source, a part of its records, and an id there, or a GUID."""


class Registers(Protocol):
    """Brings a schema to the target's registry."""

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


class SchemaDesk:
    """The desk of one flow.

    Args:
        context: The flow, whose lease is held.
        schemas: Brings schemas to the target.
        executors: Whose records wait.
        clock: Tells seconds.
    """

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
        self._since: dict[Wanted, float] = {}
        self._failures: dict[Wanted, int] = {}
        self._due: dict[Wanted, float] = {}
        self._told = set[Wanted]()
        self._guids = set[Wanted]()  # which were registered, or were an event
        self._unregistered = set[str]()  # topics
        self._refused: dict[str, tuple[Wanted, str]] = {}  # by topic, for which record
        self._lock = Lock()

    def look(self) -> None:
        """Answers what waits now, as far as there is an answer."""
        wants = self._executors.wanted()
        with self._lock, self._context.act("schemas") as may:
            if not may:
                return
            found = self._grouped(wants)
            self._state.waiting = frozenset(topic for topic, _, _ in found)
            for gone in self._since.keys() - found.keys():
                self._forget(gone)
            for wanted, records in found.items():
                self._answer(wanted, records)

    def again(self, topic: str) -> str | None:
        """Tries again what a topic was set aside for; returns why it is still in vain."""
        with self._lock:
            if topic not in self._refused:
                return None
            wanted, where = self._refused[topic]
            try:
                reason = self._refusal_of(wanted)
            except RegistryError as error:
                reason = str(error)
            if reason is None:
                del self._refused[topic]
                return None
            return f"{where} cannot be copied: {reason}"

    def _grouped(self, wants: Iterable[WantedSchema]) -> dict[Wanted, list[WantedSchema]]:
        found = defaultdict[Wanted, list[WantedSchema]](list)
        for want in wants:
            if (topic := self._state.copied.get(want.remote.topic)) is not None:
                found[topic, want.part, want.id].append(want)
        return found

    def _answer(self, wanted: Wanted, records: list[WantedSchema]) -> None:
        topic, part, number = wanted
        known = self._known.of(topic, part)
        if number in known:
            self._tell(wanted, known)
            return
        if (topic, part, number) in self._guids:
            self._tell(wanted, {str(number): str(number)})
            return
        now = self._clock()
        since = self._since.setdefault(wanted, now)
        if now < self._due.get(wanted, now):
            return
        where = f"the {part} of {topic}-{records[0].remote.partition} offset {records[0].offset}"
        try:
            reason = self._refusal_of(wanted)
        except RegistryError as error:
            self._failures[wanted] = failures = self._failures.get(wanted, 0) + 1
            self._due[wanted] = self._clock() + PAUSES.after(failures)
            if self._clock() - since < WAIT_SECONDS:
                self._context.log.warning("schemas_failed", topic=topic, text=error)
                return
            self._note_waiting(wanted, f"{where} waits for schema id {number}: {error}")
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

    def _note_waiting(self, wanted: Wanted, text: str) -> None:
        """Records once that a record has waited for long."""
        if wanted not in self._told:
            self._told.add(wanted)
            self._context.tables.record_event(
                self._flow, "schema-waits", text, reaction="retry", topic=wanted[0]
            )

    def _holds_others_up(self, topic: str, records: Iterable[WantedSchema]) -> bool:
        """Returns whether others wait with *topic*: in its task, or for the end of its batch."""
        if all(record.is_alone for record in records):
            return False
        topics = self._context.board.look().copying.topics
        return self._context.config.mode == "drain" or bool(topics.keys() - {topic})

    def _refusal_of(self, wanted: Wanted) -> str | None:
        """Registers what is wanted, and tells it; returns why that is not possible.

        Raises:
            RegistryError: A registry does not answer.
        """
        topic, part, number = wanted
        source = self._flow.source
        if number is None:
            return (
                f"it carries no schema id, and replication.schemas.unframed is fail; write copy, "
                f"or leave {topic} out of replication.schemas.topics"
            )
        remote = {name: copy for copy, name in self._state.copied.items()}
        if isinstance(number, str):
            self._register_guid(number, topic, part, remote)
            self._guids.add(wanted)
            self._tell(wanted, {number: number})
            return None
        try:
            version = self._schemas.register(number, topic, part, remote)
        except RegistryError as error:
            if not error.is_final:
                raise
            return str(error)
        if version is None:
            return (
                f"the schema registry of {source} knows no schema with its id {number}; if these "
                f"are no ids, leave {topic} out of replication.schemas.topics"
            )
        place = topic, part
        write_schema_id(self._context.tables, self._flow, place, number, version)
        self._known.add(topic, part, number, version.id)
        self._context.log.info("schema_registered", topic=topic, text=f"id {number} is {version}")
        self._tell(wanted, self._known.of(topic, part))
        return None

    def _register_guid(self, guid: str, topic: str, part: Part, remote: Mapping[str, str]) -> None:
        """Registers what a record names by a GUID, or records once a topic that it is not there.

        The copy is right all the same, so its topic goes on.

        Raises:
            RegistryError: A registry does not answer.
        """
        source, target = self._flow.source, self._flow.target
        try:
            version = self._schemas.register_guid(guid, topic, part, remote)
            reason = (
                f"the schema registry of {source} does not know it, or that of {target} gives its "
                "schema another GUID"
            )
        except RegistryError as error:
            if not error.is_final and not error.is_unsupported:
                raise
            version, reason = None, str(error)
        if version is not None:
            text = f"GUID {guid} is {version}"
            self._context.log.info("schema_registered", topic=topic, text=text)
        elif topic not in self._unregistered:
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

    def _tell(self, wanted: Wanted, ids: Answers) -> None:
        topic, part, _ = wanted
        for remote, name in self._state.copied.items():
            if name == topic:
                self._executors.tell((remote, part), ids)

    def _forget(self, wanted: Wanted) -> None:
        for memory in (self._since, self._failures, self._due):
            memory.pop(wanted, None)
        self._told.discard(wanted)
