"""Reports topics that were deleted on the source; deletes their copies later, if that is enabled.

A round compares what the flow replicated with both clusters. The table ``topic_deletions`` says
since when a topic is missing, so that the grace time outlives a restart.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.metadata.history import FlowHistory
from replication.kafka.diagnosis import CallError
from replication.kafka.rejections import Rejections
from replication.model import NewEvent
from replication.state.spark_reader import reader_of
from replication.state.tables import now
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
from replication.topics.selection import replicated_topics

TABLE: Final = "topic_deletions"
LEAST_SECONDS: Final = 60


class Deletions:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "deletions_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, TABLE, missing_since)
        self._is_doubtful = False
        self._rejected: dict[str, str] = {}

    @property
    def interval_seconds(self) -> int:
        """Between two rounds: at every topic refresh, but not more often than once a minute."""
        return max(LEAST_SECONDS, self._context.config.refresh_topics_interval_seconds)

    def round(self) -> None:
        """Compares what was replicated with both clusters.

        Raises:
            ClusterError: A cluster does not answer.
            StateError: The tables cannot be read or written.
        """
        config = self._context.config
        known = self._replicated()
        if not known:
            return
        grace = timedelta(seconds=config.deletions.grace_seconds)
        after = grace if config.deletions.enabled else None
        topics = self._topics(known)
        plan = plan_deletions(known, topics, self.history.get(), now(), after)
        self._report_missing(plan.missing, topics, after)
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

    def _replicated(self) -> list[Replicated]:
        """Returns what the flow replicated last, of the topics that it still selects."""
        reader = reader_of(self._context.tables)
        rows = [
            Replicated(row["topic"], row["topic_id"], row["remote_topic"], row["remote_id"])
            for row in reader.newest("topics", self._flow, ["topic"], ["at"])
            if row.get("remote_id")  # a table of an earlier version has none
        ]
        selected = set(replicated_topics(self._context.config, [row.topic for row in rows]))
        return [row for row in rows if row.topic in selected]

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

    def _report_missing(
        self, missing: Iterable[Replicated], topics: Topics, grace: timedelta | None
    ) -> None:
        flow = self._flow
        events = (
            NewEvent(
                "source-topic-deleted",
                f"topic {replicated.topic} no longer exists on {flow.source}; its remote topic "
                f"{replicated.remote} {fate(replicated, topics, flow.target, grace)}",
                "keep",
                {"topic": replicated.topic},
            )
            for replicated in missing
        )
        self._context.tables.record_events(flow, events)

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
                self._report_rejected(replicated, str(error))
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

    def _report_rejected(self, topic: Replicated, reason: str) -> None:
        if self._rejected.get(topic.remote) != reason:
            self._rejected[topic.remote] = reason
            self._context.tables.record_event(
                self._flow,
                "deletion-rejected",
                f"{reason}. The deletion of {topic.remote} is tried again at every round",
                topic=topic.topic,
                reaction="retry",
            )

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
