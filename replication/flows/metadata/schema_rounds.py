"""Keeps the target's schema registry in step with the source's, where ids are preserved."""

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Final

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.kafka.registry import Registry, RegistryError
from replication.schemas.difference import RegistryDifference
from replication.topics.selection import remote_topics
from replication.upkeep.schemas import PreservedSchemas, refusal

LEAST_SECONDS: Final = 5.0
TRIES_AT_START: Final = 5
FIRST_PAUSE_SECONDS: Final = 2.0

START_SECONDS: Final = 30.0
"""How long the first record waits for registries that answer, and have many schemas."""

LOOK_SECONDS: Final = 0.2


class SchemaRounds:
    """One flow's rounds.

    Args:
        context: The flow, whose lease is held.
        source: The registry of its source.
        target: That of its target.
    """

    def __init__(self, context: FlowContext, source: Registry, target: Registry) -> None:
        self._context = context
        self._registries = source, target
        self._target = target
        self._schemas = PreservedSchemas(source, target)
        self._told = ""
        self._failures = 0  # of the first round
        self._over = Event()
        self._first: Future[None] | None = None

    @property
    def interval_seconds(self) -> float:
        """Between two rounds."""
        return LEAST_SECONDS

    def begin(self, stop: Event) -> None:
        """Does the first round, before any record is copied, unless that takes very long.

        Raises:
            GuardError: The target's registry has other schemas under the ids.
            RegistryError: A registry does not answer, after some tries.
        """
        thread = ThreadPoolExecutor(1, "first schemas")
        self._first = first = thread.submit(self._try)
        thread.shutdown(wait=False)
        begun = time.monotonic()
        while not _is_done(first):
            if stop.is_set():
                self.end()
                return
            if time.monotonic() - begun >= START_SECONDS and not self._failures:
                text = (
                    f"after {START_SECONDS:.0f} s not all schemas are registered at the target: a "
                    "registry is slow, or limits requests; records are copied meanwhile"
                )
                flow = self._context.config.flow
                self._context.tables.record_event(flow, "schemas-late", text, reaction="retry")
                return
        self._first = None
        first.result()

    def finish(self, stop: Event) -> None:
        """Waits until the first round is over, unless the flow is stopped.

        Raises:
            GuardError: As `begin`, whose time was over.
            RegistryError: The same.
        """
        first = self._first
        while first is not None and not stop.is_set():
            if _is_done(first):
                first.result()
                return

    def end(self) -> None:
        """Lets the round that runs ask nothing more."""
        self._over.set()
        for registry in self._registries:
            registry.interrupt()

    def look(self) -> None:
        """Registers what is new at the source.

        Raises:
            RegistryError: A registry does not answer; the next round tries again.
        """
        try:
            if (first := self._first) is not None:
                try:
                    first.result()
                finally:
                    self._first = None
            self._look()
        except GuardError as error:
            self._note(str(error))
        except RegistryError:
            if not self._over.is_set():
                raise

    def _try(self) -> None:
        """Does the first round, with some tries."""
        while True:
            try:
                found = self._compare()
                if found.conflicts:
                    raise self._refusal(found)
                self._register(found)
            except RegistryError as error:  # noqa: PERF203 - a try each
                self._failures += 1
                is_last = error.is_final or self._failures == TRIES_AT_START
                if is_last or self._over.wait(FIRST_PAUSE_SECONDS):
                    raise
                self._context.log.warning("schemas_failed", text=error)
            else:
                return

    def _look(self) -> None:
        found = self._compare()
        if found.conflicts:
            raise self._refusal(found)
        self._told = ""
        self._register(found)

    def _note(self, text: str) -> None:
        """Records a conflict once."""
        if text != self._told:
            self._told = text
            flow = self._context.config.flow
            self._context.tables.record_event(flow, "schema-conflict", text, reaction="keep")

    def _refusal(self, found: RegistryDifference) -> GuardError:
        return refusal(str(self._context.config.flow), found, self._target.address)

    def _compare(self) -> RegistryDifference:
        config = self._context.config
        topics = remote_topics(config, self._context.source.topic_names())
        return self._schemas.compare(config.with_schema_ids(topics), is_thorough=False)

    def _register(self, found: RegistryDifference) -> None:
        with self._context.act("schemas") as may:
            if not may:
                return
            self._schemas.register(found)
        for version in found.missing:
            self._context.log.info("schema_registered", text=str(version))


def _is_done(first: "Future[None]") -> bool:
    return bool(wait([first], LOOK_SECONDS).done)
