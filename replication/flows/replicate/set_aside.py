"""Topics and partitions that cannot be replicated for now are set aside: the others go on.

Each is recorded once for each reason, and tried again at a growing interval.
"""

import time
from collections.abc import Collection, Mapping

from replication.backoff import Backoff
from replication.errors import ClusterError, FlowError, GuardError, ReplicationError
from replication.flows.board import TopicOrPartition
from replication.flows.context import FlowContext
from replication.model import Flow, NewEvent, TopicPartition
from replication.topics.retry_times import RetryTimes


class RefusedTopicError(GuardError):
    """Copying a topic would lose or repeat records, until somebody accepts that by *command*."""

    def __init__(self, text: str, command: str) -> None:
        self.command = command
        super().__init__(f"{text}\n    To go on: {command}")


ADVICE = (
    "Accept the loss or the repetition with the command above, or for all such cases with a policy "
    "replication.guard.*. Delete the remote topic to replicate it again from the source's earliest "
    "offset, or exclude the topic with topics.exclude"
)


class SetAside:
    """What of one flow is set aside, and why.

    Args:
        context: The flow.
        pauses: Before what is set aside is tried again.

    Attributes:
        errors: Why each part is set aside.
    """

    def __init__(self, context: FlowContext, pauses: Backoff) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self.log = context.log
        self._times = RetryTimes[TopicOrPartition](pauses)
        self._board = context.board
        by_drain = ", by the next drain at the latest" if context.config.mode == "drain" else ""
        self._again = "{} is tried again" + by_drain
        self.errors: dict[TopicOrPartition, ReplicationError] = {}

    def add(self, errors: Mapping[TopicOrPartition, ReplicationError]) -> None:
        """Sets parts aside, or sets the next time for those that failed again."""
        events = []
        for part, error in errors.items():
            pause = self._times.failed(part, time.monotonic())
            is_news = str(self.errors.get(part)) != str(error)
            self.errors[part] = error
            if is_news:
                text = f"{error}\nThis holds up nothing else. {self._again.format(part)}"
                events.append(NewEvent("set-aside", text, "retry", _columns(part)))
            else:
                self.log.warning(
                    "still_set_aside", **_columns(part),
                    retry_seconds=round(pause), text=error,
                )  # fmt: skip
        self._board.set_aside(errors)
        self._tables.record_events(self._flow, events)

    def waiting(self) -> frozenset[TopicOrPartition]:
        """Returns what is not tried now."""
        return self._times.waiting(time.monotonic())

    def is_due(self) -> bool:
        """Returns whether anything is to be tried now."""
        return self._times.is_due(time.monotonic())

    def retry_now(self, parts: Collection[TopicOrPartition]) -> None:
        """Makes those of *parts* due that are set aside."""
        for part in self.errors.keys() & set(parts):
            self._times.retry_now(part, time.monotonic())

    def postpone(self) -> None:
        """Sets the next time of what is due."""
        now = time.monotonic()
        for part in self.errors.keys() - self._times.waiting(now):
            self._times.failed(part, now)

    def rejoin(self, replicated: Collection[TopicOrPartition]) -> None:
        """Marks everything in *replicated* as no longer set aside."""
        parts = [part for part in self.errors if part in replicated]
        self.forget(parts)
        text = "{}, which was set aside, is replicated"
        events = (
            NewEvent("rejoined", text.format(part), "retry", _columns(part)) for part in parts
        )
        self._tables.record_events(self._flow, events)

    def forget(self, parts: Collection[TopicOrPartition]) -> None:
        """Forgets *parts* that no longer exist or are excluded."""
        for part in parts:
            self._times.succeeded(part)
            del self.errors[part]
        self._board.take_back(parts)


def _columns(part: TopicOrPartition) -> dict[str, str | int]:
    if isinstance(part, TopicPartition):
        return {"topic": part.topic, "partition": part.partition}
    return {"topic": part}


def joined(flow: Flow, errors: Mapping[TopicOrPartition, ReplicationError]) -> ReplicationError:
    """Joins *errors* into one. Its exit code is that of a decision, if one needs it."""
    lines = "".join(f"\n  - {part}: {error}" for part, error in sorted(errors.items(), key=str))
    text = f"flow {flow} does not replicate these topics:{lines}"
    if any(isinstance(error, RefusedTopicError) for error in errors.values()):
        return GuardError(f"{text}\nContinuing would lose or repeat records. {ADVICE}")
    if any(isinstance(error, GuardError) for error in errors.values()):
        return GuardError(text)
    if any(isinstance(error, FlowError) for error in errors.values()):
        return FlowError(text)
    return ClusterError(text)
