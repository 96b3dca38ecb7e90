"""Keeps the target's schema registry in step with the source's, where ids are preserved."""

from threading import Event
from typing import Final

from replication.flows.context import FlowContext
from replication.kafka.registry import Registry, RegistryError
from replication.schemas.difference import RegistryDifference
from replication.topics.selection import remote_topics
from replication.upkeep.schemas import PreservedSchemas, refusal

LEAST_SECONDS: Final = 5.0
TRIES_AT_START: Final = 5
FIRST_PAUSE_SECONDS: Final = 2.0


class SchemaRounds:
    """One flow's rounds.

    Args:
        context: The flow, whose lease is held.
        source: The registry of its source.
        target: That of its target.
    """

    def __init__(self, context: FlowContext, source: Registry, target: Registry) -> None:
        self._context = context
        self._target = target
        self._schemas = PreservedSchemas(source, target)
        self._told = ""

    @property
    def interval_seconds(self) -> float:
        """Between two rounds, each of which asks both registries for each subject."""
        return LEAST_SECONDS

    def begin(self, stop: Event) -> None:
        """Does the first round, before any record is copied.

        Raises:
            GuardError: The target's registry has other schemas under the ids.
            RegistryError: A registry does not answer, after some tries.
        """
        for tried in range(1, TRIES_AT_START + 1):
            try:
                found = self._compare()
                if found.conflicts:
                    raise refusal(str(self._context.config.flow), found, self._target.address)
                self._register(found)
            except RegistryError as error:  # noqa: PERF203 - a try each
                if error.is_final or tried == TRIES_AT_START or stop.wait(FIRST_PAUSE_SECONDS):
                    raise
                self._context.log.warning("schemas_failed", text=error)
            else:
                return

    def look(self) -> None:
        """Registers what is new at the source.

        Raises:
            RegistryError: A registry does not answer; the next round tries again.
        """
        found = self._compare()
        if not found.conflicts:
            self._told = ""
            self._register(found)
            return
        text = str(refusal(str(self._context.config.flow), found, self._target.address))
        if text != self._told:
            self._told = text
            flow = self._context.config.flow
            self._context.tables.record_event(flow, "schema-conflict", text, reaction="keep")

    def _compare(self) -> RegistryDifference:
        config = self._context.config
        topics = remote_topics(config, self._context.source.topic_names())
        return self._schemas.compare(config.with_schema_ids(topics))

    def _register(self, found: RegistryDifference) -> None:
        with self._context.act("schemas") as may:
            if not may:
                return
            self._schemas.register(found)
        for version in found.missing:
            self._context.log.info("schema_registered", text=str(version))
