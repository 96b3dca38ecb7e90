"""What describes remote topics, kept in step with the source: settings, ACLs, deletions, schemas.

One query does the rounds of the first three; schemas are registered by threads of the flow.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, Final, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication import log_events
from replication.config.tree import FlowConfig
from replication.errors import ClusterError, GuardError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.kafka.acls import NoAclsError, TopicAcls
from replication.kafka.cluster import Rejections
from replication.kafka.diagnosis import CallError, InterruptedCallError
from replication.kafka.registry import Registry, RegistryError
from replication.model import NewEvent, TopicAcl
from replication.schemas.difference import RegistryDifference
from replication.spark.counting import trigger_stream
from replication.state.tables import now, reader_of
from replication.topics.acls import AclHistory
from replication.topics.configs import SyncHistory
from replication.topics.deletions import (
    BACK,
    DELETED,
    MISSING,
    Replicated,
    Topics,
    fate,
    follow,
    missing_since,
    plan_deletions,
)
from replication.topics.selection import remote_topics, replicated_topics
from replication.upkeep.schemas import PreservedSchemas, refusal
from replication.upkeep.settings import (
    AclOutcome,
    SettingOutcome,
    TopicChanges,
    apply_acls,
    apply_changes,
    plan_acl_sync,
    plan_config_sync,
)

ValueT = TypeVar("ValueT")
Rows = Iterable[Mapping[str, Any]]


class FlowHistory(Generic[ValueT]):
    """The flow's rows of one table, read once.

    *read* turns rows, which come in any order, into the value that a round works with.
    """

    def __init__(self, context: FlowContext, table: str, read: Callable[[Rows], ValueT]) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self._table = table
        self._read = read
        self._value: ValueT | None = None

    def get(self) -> ValueT:
        """Returns the value, which the caller brings up to date with what it appends."""
        if self._value is None:
            self._value = self._read(reader_of(self._tables).rows(self._table, self._flow))
        return self._value

    def forget(self) -> None:
        """Reads the table again at the next `get`: another process may have written to it."""
        self._value = None

    def append(self, rows: Rows) -> list[dict[str, Any]]:
        """Appends *rows*, and returns them with the flow and the time."""
        at = now()
        complete = [{"flow": str(self._flow), **row, "at": at} for row in rows]
        self._tables.append(self._table, complete)
        return complete


# Copies topic ACLs to the remote topics, as MirrorMaker 2 does.
#
# A round compares both clusters and what was created before, changes what differs, and records it
# in the table ``topic_acls``. A cluster without an authorizer, or a missing permission, is logged
# once.

ACLS_TABLE: Final = "topic_acls"


class AclSync:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "acl_sync_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, ACLS_TABLE, AclHistory.of)
        self._problem = ""

    @property
    def interval_seconds(self) -> int:
        """Between two rounds."""
        return self._context.config.acls.sync_interval_seconds

    def round(self) -> None:
        """Compares the ACLs of all topics and changes what differs."""
        try:
            self._sync()
        except NoAclsError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                if error.has_authorizer:
                    self._context.log.warning("acls_not_copied", text=error)
                else:
                    self._context.log.info("acls_not_copied", text=error)
        else:
            self._problem = ""

    def _sync(self) -> None:
        config, jvm, history = self._context.config, self._context.jvm, self.history.get()
        outcomes: list[AclOutcome] = []
        with (
            TopicAcls(jvm, config.source.alias, config.source.admin) as source,
            TopicAcls(jvm, config.target.alias, config.target.admin) as target,
        ):
            plan = plan_acl_sync(config, source, target, history.created)
            try:
                for outcome in apply_acls(target, plan, partial(self._context.act, "metadata")):
                    outcomes.append(outcome)  # noqa: PERF402 - what is done counts if the rest fails
            finally:
                self._settle(outcomes, history)

    def _settle(self, outcomes: Iterable[AclOutcome], history: AclHistory) -> None:
        """Records and reports *outcomes*; a rejection that was reported before is left out."""
        news = [
            outcome
            for outcome in outcomes
            if outcome.rejection is None or (outcome.action, outcome.acl) not in history.rejected
        ]
        created = {
            outcome.acl
            for outcome in news
            if outcome.action == "create" and outcome.rejection is None
        }
        restored = created & history.created
        self._record(news, history)
        self._report_restored(restored)
        self._report(
            outcome
            for outcome in news
            if outcome.action != "forget" and outcome.acl not in restored
        )

    def _report_restored(self, acls: Iterable[TopicAcl]) -> None:
        text = ", ".join(map(str, sorted(acls)))
        if text:
            flow = self._flow
            self._context.tables.record_event(
                flow,
                "acl-restored",
                f"ACLs that somebody removed on {flow.target} were created again, since "
                f"{flow.source} still has them: {text}. To withdraw an access on {flow.target} "
                f"only, create a DENY there",
                reaction="overwrite",
            )

    def _report(self, outcomes: Iterable[AclOutcome]) -> None:
        flow, grouped, events = self._flow, defaultdict(list), []
        for outcome in outcomes:
            grouped[outcome.action, outcome.acl.topic, outcome.rejection].append(str(outcome.acl))
        for (action, topic, rejection), acls in grouped.items():
            text = ", ".join(acls)
            if rejection is None:
                is_new = action == "create"
                self._context.log.info(
                    "acl_created" if is_new else "acl_removed", topic=topic, text=text
                )
                continue
            rejected = (
                f"{flow.target} did not {action} these ACLs: {text}: {rejection}. It is tried "
                "again at every interval"
            )
            events.append(NewEvent("acl-rejected", rejected, "retry", {"topic": topic}))
        self._context.tables.record_events(flow, events)

    def _record(self, outcomes: Sequence[AclOutcome], history: AclHistory) -> None:
        self.history.append(
            {
                "action": outcome.action,
                "remote_topic": outcome.acl.topic,
                "pattern": outcome.acl.pattern,
                "principal": outcome.acl.principal,
                "host": outcome.acl.host,
                "operation": outcome.acl.operation,
                "permission": outcome.acl.permission,
                "rejection": outcome.rejection,
            }
            for outcome in outcomes
        )
        for outcome in outcomes:
            history.add(outcome.action, outcome.acl, outcome.rejection)


# Keeps the settings of remote topics in step with their source topics, as MirrorMaker 2 does.
#
# A round compares the source, the target and what was applied last, changes what differs, and
# records it in the table ``topic_configs``. One rejected setting does not hold up the others.

CONFIGS_TABLE = "topic_configs"


class ConfigSync:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "config_sync_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, CONFIGS_TABLE, SyncHistory.of)

    @property
    def interval_seconds(self) -> int:
        """Between two rounds."""
        return self._context.config.topic_configs.sync_interval_seconds

    def round(self) -> None:
        """Compares all remote topics and changes what differs."""
        context, history = self._context, self.history.get()
        planned = plan_config_sync(
            self._context.config, context.source, context.target, history.applied
        )
        conflicts = (event for topic in planned for event in self._conflicts(topic, history))
        context.tables.record_events(self._flow, conflicts)
        news = [
            outcome
            for outcome in apply_changes(context.target, planned, partial(context.act, "metadata"))
            if not history.was_rejected(outcome.topic.key, outcome.change)
            or outcome.rejection is None
        ]
        grouped, events = defaultdict(list), []
        for outcome in news:
            if outcome.change.is_due:
                grouped[outcome.topic.remote.name, outcome.rejection].append(str(outcome.change))
        for (remote, rejection), changes in grouped.items():
            text = ", ".join(changes)
            if rejection is None:
                self._context.log.info("topic_config_changed", topic=remote, text=text)
                continue
            rejected = (
                f"{self._flow.target} rejected a change of {remote}: {text}: {rejection}. "
                "The change is tried at every interval; to leave the setting alone, add it to "
                "config.properties.exclude"
            )
            events.append(NewEvent("config-rejected", rejected, "retry", {"topic": remote}))
        self._context.tables.record_events(self._flow, events)
        self._record(news, history)

    def _conflicts(self, topic: TopicChanges, history: SyncHistory) -> list[NewEvent]:
        changes = [
            str(change)
            for change in topic.changes
            if change.is_conflict and not history.was_rejected(topic.key, change)
        ]
        if not changes:
            return []
        text = (
            f"settings of {topic.remote.name} on {self._flow.target} were changed by "
            f"somebody else and get the values of {topic.topic} on {self._flow.source} "
            f"again: {', '.join(changes)}. To leave a setting alone, add it to "
            "config.properties.exclude"
        )
        return [NewEvent("config-overwritten", text, "overwrite", {"topic": topic.remote.name})]

    def _record(self, outcomes: Sequence[SettingOutcome], history: SyncHistory) -> None:
        self.history.append(
            {
                "topic": outcome.topic.topic,
                "remote_topic": outcome.topic.remote.name,
                "remote_id": outcome.topic.remote.topic_id,
                "key": outcome.change.key,
                "value": outcome.change.value,
                "previous": outcome.change.before,
                "rejection": outcome.rejection,
            }
            for outcome in outcomes
        )
        for outcome in outcomes:
            history.add(outcome.topic.key, outcome.change, outcome.rejection)


# Reports topics that were deleted on the source; deletes their copies later, if that is enabled.
#
# A round compares what the flow replicated with both clusters. The table ``topic_deletions`` says
# since when a topic is missing, so that the grace time outlives a restart.

DELETIONS_TABLE: Final = "topic_deletions"
DELETIONS_LEAST_SECONDS: Final = 60


class Deletions:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "deletions_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, DELETIONS_TABLE, missing_since)
        self._is_doubtful = False
        self._rejected: dict[str, str] = {}

    @property
    def interval_seconds(self) -> int:
        """Between two rounds: at every topic refresh, but not more often than once a minute."""
        return max(DELETIONS_LEAST_SECONDS, self._context.config.refresh_topics_interval_seconds)

    def round(self) -> None:
        """Compares what was replicated with both clusters."""
        config = self._context.config
        reader = reader_of(self._context.tables)
        rows = [
            Replicated(row["topic"], row["topic_id"], row["remote_topic"], row["remote_id"])
            for row in reader.newest("topics", self._flow, ["topic"], ["at"])
            if row.get("remote_id")  # a table of an earlier version has none
        ]
        selected = set(replicated_topics(self._context.config, [row.topic for row in rows]))
        known = [row for row in rows if row.topic in selected]
        if not known:
            return
        grace = timedelta(seconds=config.deletions.grace_seconds)
        after = grace if config.deletions.enabled else None
        topics = self._topics(known)
        plan = plan_deletions(known, topics, self.history.get(), now(), after)
        flow = self._flow
        events = (
            NewEvent(
                "source-topic-deleted",
                f"topic {replicated.topic} no longer exists on {flow.source}; its remote topic "
                f"{replicated.remote} {fate(replicated, topics, flow.target, after)}",
                "keep",
                {"topic": replicated.topic},
            )
            for replicated in plan.missing
        )
        self._context.tables.record_events(flow, events)
        self._record(MISSING, plan.missing)
        self._record(BACK, plan.back)
        self._delete(plan.delete)
        if plan.is_doubtful and not self._is_doubtful:
            self._context.log.warning(
                "deletions_in_doubt",
                text=f"none of the topics that were replicated is left on {config.flow.source}; "
                "one of the same name is another one by its id. If that is the right cluster, "
                "delete their remote topics by hand",
            )
        self._is_doubtful = plan.is_doubtful

    def _topics(self, known: Iterable[Replicated]) -> Topics:
        """Returns what exists. A topic that the user may not describe does not count as deleted."""
        of_source, of_target = Rejections(), Rejections()
        source = of_source.call(
            self._context.source.describe, [replicated.topic for replicated in known]
        )
        target = of_target.call(
            self._context.target.describe, [replicated.remote for replicated in known]
        )
        return Topics(
            {name: topic.topic_id for name, topic in source.items()},
            {name: topic.topic_id for name, topic in target.items()},
            # the source lists a topic that a broker does not know yet
            {*of_source.texts, *self._context.source.topic_names()},
            of_target.texts,
        )

    def _delete(self, topics: Iterable[Replicated]) -> None:
        """Deletes remote topics; one that the target does not delete is reported once."""
        flow, grace_seconds = self._flow, self._context.config.deletions.grace_seconds
        for replicated in topics:
            try:
                with self._context.act("metadata") as may:
                    if not may:
                        return
                    self._context.target.delete_topic(replicated.remote)
            except CallError as error:
                if error.is_temporary:
                    raise
                reason = str(error)
                if self._rejected.get(replicated.remote) != reason:
                    self._rejected[replicated.remote] = reason
                    self._context.tables.record_event(
                        self._flow,
                        "deletion-rejected",
                        f"{reason}. The deletion of {replicated.remote} is tried again at every "
                        "round",
                        topic=replicated.topic,
                        reaction="retry",
                    )
                continue
            self._context.tables.record_event(
                flow,
                "remote-topic-deleted",
                f"topic {replicated.remote} was deleted on {flow.target}, since {replicated.topic} "
                f"was deleted on {flow.source} more than {grace_seconds} s before",
                topic=replicated.topic,
                reaction="delete",
            )
            self._record(DELETED, [replicated])

    def _record(self, state: str, topics: Iterable[Replicated]) -> None:
        rows = self.history.append(
            {
                "topic": replicated.topic,
                "topic_id": replicated.topic_id,
                "remote_topic": replicated.remote,
                "remote_id": replicated.remote_id,
                "state": state,
            }
            for replicated in topics
        )
        follow(self.history.get(), rows)


# Keeps the target's schema registry in step with the source's, where ids are preserved.

SCHEMAS_LEAST_SECONDS: Final = 5.0
TRIES_AT_START: Final = 5
FIRST_PAUSE_SECONDS: Final = 2.0

START_SECONDS: Final = 30.0
"""How long the first record waits for registries that answer, and have many schemas."""

LOOK_SECONDS: Final = 0.2


class SchemaRounds:
    """One flow's rounds."""

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
        return SCHEMAS_LEAST_SECONDS

    def begin(self, stop: Event) -> None:
        """Does the first round, before any record is copied, unless that takes very long."""
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
        """Waits until the first round is over, unless the flow is stopped."""
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
        """Registers what is new at the source."""
        try:
            if (first := self._first) is not None:
                try:
                    first.result()
                finally:
                    self._first = None
            found = self._compare()
            if found.conflicts:
                raise self._refusal(found)
            self._told = ""
            self._register(found)
        except GuardError as error:
            text = str(error)
            if text != self._told:
                self._told = text
                flow = self._context.config.flow
                self._context.tables.record_event(flow, "schema-conflict", text, reaction="keep")
        except RegistryError:
            if not self._over.is_set():
                raise

    def _try(self) -> None:
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


class Sync(Protocol):
    """One thing that is kept in step, such as settings."""

    @property
    def failure(self) -> log_events.Event:
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
