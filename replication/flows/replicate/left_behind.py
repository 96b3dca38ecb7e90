"""Says what a drain leaves behind open transactions: which offsets, since when, and whose.

A flow that reads committed records stops before the first record of an open transaction, whoever
wrote the records that follow. A transaction that has ended by the end of the drain is no news: the
next one copies it, like all that arrived after the start.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timezone

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.kafka.transactions import OpenTransaction, Transactions
from replication.log import Log
from replication.model import Flow, NewEvent, TopicPartition

log = Log(__name__)

Spans = Mapping[TopicPartition, tuple[int, int]]


class LeftBehind:
    """What one drain does not copy of what was there when it began.

    Args:
        context: The flow.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._config = context.config
        is_held = self._config.isolation == "read_committed"
        self._may_leave = is_held and self._config.mode == "drain"
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
            found = self._owners(spans) if spans else {}
            spans = {tp: span for tp, span in self._held().items() if tp in spans}
        except ClusterError as error:
            log.warning("left_behind_unknown", flow=self._config.flow, text=error)
            return
        flow, servers = self._config.flow, self._context.source.servers
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
            log.warning(
                "left_behind", flow=flow, partitions=len(spans), offsets=offsets,
                text="open transactions of the source hold them back; the exit code stays 0",
            )  # fmt: skip

    def _held(self) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the last stable offset to the log end at the start, where there is more."""
        stable = self._context.source.log_ends(self._ends, "read_committed") if self._ends else {}
        return {
            tp: (stable[tp], end) for tp, end in self._ends.items() if stable.get(tp, end) < end
        }

    def _owners(self, spans: Spans) -> dict[TopicPartition, OpenTransaction | str]:
        source = self._config.source
        with Transactions(self._context.jvm, source.alias, source.admin) as transactions:
            return transactions.open_at(spans)


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
    if isinstance(owner, str):
        whose = f"behind an open transaction. Whose is not known: {owner}"
    else:
        name = owner.name or "a transactional id that this user may not DESCRIBE"
        since = (
            f"since {_time(owner.since_ms)}"
            if owner.since_ms is not None
            else f"with its last record of {_time(owner.last_ms)}"
        )
        whose = f"behind an open transaction of {name} (producer id {owner.producer_id}), {since}"
    return (
        f"{left}: they are {whose}. The next drain copies them once it has ended. If its producer "
        f"is gone: kafka-transactions --bootstrap-server {servers} abort --topic {tp.topic} "
        f"--partition {tp.partition} --start-offset {start}"
    )


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
