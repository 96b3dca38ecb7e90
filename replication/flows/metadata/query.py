"""One query that keeps what describes a flow's remote topics in step: settings, ACLs, deletions."""

import time
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.tree import FlowConfig
from replication.errors import ClusterError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.flows.metadata.rounds import AclSync, ConfigSync, Deletions, FlowHistory
from replication.kafka.diagnosis import InterruptedCallError
from replication.log_events import Event
from replication.spark.counting import trigger_stream


class Sync(Protocol):
    """One thing that is kept in step, such as settings."""

    @property
    def failure(self) -> Event:
        """The log's event for a round that failed."""

    @property
    def interval_seconds(self) -> int:
        """Between two rounds."""

    @property
    def history(self) -> FlowHistory[Any]:
        """What earlier rounds did."""

    def round(self) -> None:
        """Compares source and target, and changes what differs; an error ends this round only."""


def is_wanted(config: FlowConfig) -> bool:
    """Returns whether the flow keeps anything in step."""
    return (
        config.topic_configs.sync_enabled
        or config.acls.sync_enabled
        or config.refresh_topics_enabled
    )


class MetadataSync:
    """Everything that one flow keeps in step."""

    def __init__(self, context: FlowContext) -> None:
        config = context.config
        self._context = context
        self._configs = [ConfigSync(context)] if config.topic_configs.sync_enabled else []
        self._others: list[Sync] = []
        if config.acls.sync_enabled:
            self._others.append(AclSync(context))
        if config.refresh_topics_enabled:
            self._others.append(Deletions(context))

    def query(self) -> DataStreamWriter:
        """Returns the query that does each part's rounds, at once and then at its interval."""
        parts = [*self._configs, *self._others]
        for part in parts:
            part.history.forget()
        shortest = min(part.interval_seconds for part in parts)
        due_at = dict.fromkeys(parts, 0.0)

        def tick(_rows: DataFrame, _batch: int) -> None:
            if self._context.steering.held:
                return  # all of it is due as soon as the flow is released
            now = time.monotonic()
            for part in [part for part, due in due_at.items() if due <= now]:
                # earlier by at most one trigger, so that none is left out for a moment too soon
                due_at[part] = now + part.interval_seconds - shortest
                try:
                    self._try(part)
                except InterruptedCallError as error:
                    self._context.log.info("metadata_round_interrupted", text=error)

        rows = trigger_stream(self._context.tables.spark)
        return rows.writeStream.foreachBatch(tick).trigger(processingTime=f"{shortest} seconds")

    def round(self) -> StateError | None:
        """Does one round of everything, for a drain, before the records are copied.

        Returns:
            Why a table of another part than the settings cannot be read or written.

        Raises:
            ClusterError: A cluster does not answer, so the settings of remote topics are unknown:
                the target might delete what is copied.
            StateError: The table of these settings cannot be read or written.
        """
        for part in self._configs:
            part.round()
        errors = [self._try(other) for other in self._others]
        return next((error for error in errors if isinstance(error, StateError)), None)

    def _try(self, part: Sync) -> ReplicationError | None:
        """Does one round of *part*; logs and returns the error that ends it.

        A round that meets a hold does no more: each act on the target asks for it.
        """
        try:
            part.round()
        except (ClusterError, StateError) as error:
            self._context.log.warning(part.failure, text=error)
            return error
        return None
