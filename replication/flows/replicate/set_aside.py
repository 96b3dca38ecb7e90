"""Topics that cannot be replicated for now are set aside, so that they do not stop the others.

Each is recorded once for each reason, and tried again at a growing interval.
"""

import time
from collections.abc import Collection, Mapping

from replication.config.tree import FlowConfig
from replication.errors import ClusterError, GuardError, ReplicationError
from replication.log import Log
from replication.model import Flow
from replication.state.tables import Tables
from replication.topics.retry_times import RetryTimes

log = Log(__name__)

FIRST_RETRY_SECONDS = 60
"""The pause before the first retry, unless topics are refreshed more often."""

LONGEST_PAUSE_SECONDS = 3600

ADVICE = (
    "Delete the remote topic and the topic's rows in the table offset_runs to replicate it again "
    "from the source's earliest offset, or exclude the topic with topics.exclude"
)


class SetAside:
    """The topics of one flow that are set aside, by their upstream names, and why.

    Args:
        tables: For the events.
        config: The flow.

    Attributes:
        errors: Why each topic is set aside.
    """

    def __init__(self, tables: Tables, config: FlowConfig) -> None:
        self._tables, self._flow = tables, config.flow
        first = min(FIRST_RETRY_SECONDS, config.refresh_topics_interval_seconds)
        self._times = RetryTimes[str](first, LONGEST_PAUSE_SECONDS)
        self.errors: dict[str, ReplicationError] = {}

    def add(self, errors: Mapping[str, ReplicationError]) -> None:
        """Sets topics aside, or sets the next time for those that failed again."""
        for topic, error in errors.items():
            pause = self._times.failed(topic, time.monotonic())
            is_news = str(self.errors.get(topic)) != str(error)
            self.errors[topic] = error
            if is_news:
                self._tables.record_event(
                    self._flow,
                    "set-aside",
                    f"{error}\nThe other topics of the flow are replicated; this one is tried "
                    f"again at a growing interval of at most {LONGEST_PAUSE_SECONDS} s",
                    topic=topic,
                    policy="retry",
                )
            else:
                log.warning(
                    "still_set_aside", flow=self._flow, topic=topic, retry_seconds=round(pause),
                    text=error,
                )  # fmt: skip

    def waiting(self) -> frozenset[str]:
        """The topics that are not tried now."""
        return self._times.waiting(time.monotonic())

    def is_due(self) -> bool:
        """Whether a topic is to be tried now."""
        return self._times.is_due(time.monotonic())

    def accept(self, replicated: Collection[str]) -> None:
        """Ends the setting aside of the topics that are *replicated*."""
        for topic in [topic for topic in self.errors if topic in replicated]:
            self._forget(topic)
            text = f"topic {topic}, which was set aside, is replicated"
            self._tables.record_event(self._flow, "rejoined", text, topic=topic, policy="retry")

    def forget(self, topics: Collection[str]) -> None:
        """Forgets *topics* that no longer exist or are excluded."""
        for topic in topics:
            self._forget(topic)

    def error(self) -> ReplicationError | None:
        """One error for all topics that are set aside; None if none is."""
        return joined(self._flow, self.errors) if self.errors else None

    def _forget(self, topic: str) -> None:
        self._times.succeeded(topic)
        del self.errors[topic]


def joined(flow: Flow, errors: Mapping[str, ReplicationError]) -> ReplicationError:
    """One error for all topics in *errors*; those that need a decision set its exit code."""
    lines = "".join(f"\n  - {topic}: {error}" for topic, error in sorted(errors.items()))
    if any(isinstance(error, GuardError) for error in errors.values()):
        return GuardError(
            f"flow {flow} does not replicate these topics, because continuing would lose or "
            f"repeat records, or a cluster rejects them:{lines}\n{ADVICE}"
        )
    return ClusterError(f"flow {flow} does not replicate these topics:{lines}")
