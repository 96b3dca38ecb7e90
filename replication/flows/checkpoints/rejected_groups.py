"""Reports groups that a cluster rejects, each once for each reason, and when that is over."""

from collections.abc import Iterable, Mapping
from functools import partial

from replication.errors import StateError
from replication.flows.context import FlowContext
from replication.groups.rejected import ACCEPTED, KEYS, REJECTED, Rejected
from replication.model import NewEvent
from replication.state.spark_reader import reader_of


class RejectedGroups:
    """What was reported of one flow's groups, by this process or an earlier one.

    The newest event of a group says whether the cluster rejects it now, for whoever asks.
    """

    def __init__(self, context: FlowContext) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self._known: Rejected | None = None

    def report(
        self,
        reasons: Mapping[str, str],
        cluster: str,
        topic: str | None = None,
        accepted: Iterable[str] = (),
    ) -> None:
        """Records an event for each group whose reason is new, or that is rejected no more.

        Args:
            reasons: Why the cluster rejects groups.
            cluster: Its alias.
            topic: The internal topic that takes no record of them; None for their offsets.
            accepted: Groups of which it has just taken what is meant here.

        Raises:
            StateError: The events cannot be read, and there is something to report.
        """
        try:
            known = self._get()
        except StateError:
            if reasons:
                raise
            return  # the next round says what is over
        place = {"cluster": cluster} | ({} if topic is None else {"topic": topic})
        events = [
            NewEvent(REJECTED, text, "retry", {"group": group, **place})
            for group, reason in sorted(reasons.items())
            if known.get(group, cluster, topic) != (text := _text(group, reason))
        ]
        events += [
            NewEvent(
                ACCEPTED,
                f"cluster {cluster} rejects group {group} no more",
                "retry",
                {"group": group, **place},
            )
            for group in sorted(accepted)
            if group not in reasons and known.get(group, cluster, topic)
        ]
        for event in events:
            known.add(event.kind, {**event.details, "text": event.text})
        self._tables.record_events(self._flow, events)

    def _get(self) -> Rejected:
        if self._known is None:
            read = partial(reader_of(self._tables).newest, "events", self._flow, KEYS, ["at"])
            self._known = Rejected.of(self._tables.mended("events", self._flow, read))
        return self._known


def _text(group: str, reason: str) -> str:
    return (
        f"group {group}: {reason}. This holds up no other group; it is tried again at every "
        "interval. To leave it out, add it to groups.exclude"
    )
