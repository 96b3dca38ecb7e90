"""Reports groups that a cluster rejects, each once for each reason; the others go on."""

from collections.abc import Mapping
from functools import partial

from replication.flows.context import FlowContext
from replication.model import NewEvent
from replication.state.spark_reader import reader_of


class RejectedGroups:
    """What was reported of one flow's groups, by this process or an earlier one."""

    def __init__(self, context: FlowContext) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self._known: set[tuple[str, str]] | None = None

    def report(self, reasons: Mapping[str, str]) -> None:
        """Records an event for each group whose reason is new.

        Raises:
            StateError: The events cannot be read.
        """
        if not reasons:
            return
        if self._known is None:
            keys = ["kind", "group", "text"]
            read = partial(reader_of(self._tables).newest, "events", self._flow, keys, ["at"])
            rows = self._tables.mended("events", self._flow, read)
            self._known = {
                (row["group"], row["text"]) for row in rows if row["kind"] == "group-rejected"
            }
        found = {(group, _text(group, reason)) for group, reason in reasons.items()}
        news = sorted(found - self._known)
        self._known |= found
        events = (
            NewEvent("group-rejected", text, "retry", {"group": group}) for group, text in news
        )
        self._tables.record_events(self._flow, events)


def _text(group: str, reason: str) -> str:
    return (
        f"group {group}: {reason}. This holds up no other group; it is tried again at every "
        "interval. To leave it out, add it to groups.exclude"
    )
