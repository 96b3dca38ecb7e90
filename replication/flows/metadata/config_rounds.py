"""Keeps the settings of remote topics in step with their source topics, as MirrorMaker 2 does.

A round compares the source, the target and what was applied last, changes what differs, and
records it in the table ``topic_configs``. One rejected setting does not hold up the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.metadata.history import FlowHistory
from replication.model import NewEvent
from replication.topics.config_sync import SyncHistory
from replication.upkeep.settings import (
    SettingOutcome,
    TopicChanges,
    apply_changes,
    plan_config_sync,
)

TABLE = "topic_configs"


class ConfigSync:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "config_sync_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, TABLE, SyncHistory.of)

    @property
    def interval_seconds(self) -> int:
        """Between two rounds."""
        return self._context.config.topic_configs.sync_interval_seconds

    def round(self) -> None:
        """Compares all remote topics and changes what differs.

        Raises:
            ClusterError: A cluster does not answer; the next round compares again.
            StateError: The tables cannot be read or written.
        """
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
        self._report_outcomes(news)
        self._record(news, history)

    def _conflicts(self, topic: TopicChanges, history: SyncHistory) -> list[NewEvent]:
        """Returns an event for settings that others changed, before they are overwritten."""
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

    def _report_outcomes(self, outcomes: Iterable[SettingOutcome]) -> None:
        """Logs each changed topic, and writes an event for each reason of a rejection."""
        grouped, events = defaultdict(list), []
        for outcome in outcomes:
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
