"""Says what a drain leaves behind open transactions: which offsets, since when, and whose.

A flow that reads committed records stops before the first record of an open transaction, whoever
wrote the records that follow. A transaction that has ended by the end of the drain is no news: the
next one copies it, like all that arrived after the start.
"""

from collections.abc import Collection

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.flows.replicate.held_back import (
    HeldBack,
    describe_owner,
    how_to_abort,
    owners_of,
)
from replication.kafka.transactions import OpenTransaction
from replication.model import Flow, NewEvent, TopicPartition


class LeftBehind:
    """What one drain does not copy of what was there when it began.

    Args:
        context: The flow.

    Attributes:
        held_back: What the other modes say in the place of a drain's end.
    """

    def __init__(self, context: FlowContext) -> None:
        self.held_back = HeldBack(context)
        self._context = context
        self._flow = context.config.flow
        is_held = self._context.config.isolation == "read_committed"
        self._may_leave = is_held and self._context.config.mode == "drain"
        self._ends: dict[TopicPartition, int] = {}

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Takes note of where *partitions* end now, unless an earlier call has.

        Raises:
            ClusterError: The source does not answer.
        """
        new = set(partitions) - self._ends.keys() if self._may_leave else ()
        if new:
            self._ends |= self._context.source.log_ends(new)

    def report(self) -> None:
        """Records an event for each partition that an open transaction still holds back.

        The records are copied: that their source does not answer is only logged.
        """
        try:
            spans = self._held()
            found = owners_of(self._context, spans) if spans else {}
            spans = {tp: span for tp, span in self._held().items() if tp in spans}
        except ClusterError as error:
            self._context.log.warning("left_behind_unknown", text=error)
            return
        flow, servers = self._flow, self._context.source.servers
        events = (
            NewEvent(
                "transaction-open",
                describe_left(flow, tp, span, found.get(tp, "no broker names one"), servers),
                "retry",
                {**tp._asdict(), "offset_from": span[0], "offset_until": span[1]},
            )
            for tp, span in sorted(spans.items())
        )
        self._context.tables.record_events(flow, list(events))
        if spans:
            offsets = sum(until - start for start, until in spans.values())
            self._context.log.warning(
                "left_behind", partitions=len(spans), offsets=offsets,
                text="open transactions of the source hold them back; the exit code stays 0",
            )  # fmt: skip

    def _held(self) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the last stable offset to the log end at the start, where there is more."""
        stable = self._context.source.log_ends(self._ends, "read_committed") if self._ends else {}
        return {
            tp: (stable[tp], end) for tp, end in self._ends.items() if stable.get(tp, end) < end
        }


def describe_left(
    flow: Flow,
    tp: TopicPartition,
    span: tuple[int, int],
    owner: OpenTransaction | str,
    servers: str,
) -> str:
    """Describes *span* of *tp*, which *owner* holds back, for an operator; else why it is unknown.

    Args:
        flow: That drained.
        tp: On its source.
        span: The first offset that is left behind, and the one after the last.
        owner: The transaction, or why it cannot be known.
        servers: The source's address.
    """
    start, until = span
    left = (
        f"{until - start} offsets of {tp} on {flow.source}, {start} to {until - 1}, are not copied"
    )
    return (
        f"{left}: they are behind {describe_owner(owner)}. The next drain copies them once it has "
        f"ended. {how_to_abort(tp, start, servers)}"
    )
