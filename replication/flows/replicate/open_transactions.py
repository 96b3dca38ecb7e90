"""Says what open transactions hold back while a continuous flow runs: since when, and whose.

A flow that reads committed records waits before the first record of an open transaction. Most last
for milliseconds. One whose producer is gone holds its partition up until the coordinator aborts it,
and a hanging one, unknown to any coordinator, for ever.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from replication.errors import ClusterError
from replication.figures.lag import utc
from replication.flows.context import FlowContext
from replication.kafka.java_admin import OpenTransaction, Transactions
from replication.model import Flow, NewEvent, TopicPartition

HELD_SECONDS: Final = 120
"""How long a transaction may hold a partition before that is worth a word."""

Owners = Mapping[TopicPartition, OpenTransaction | str]
"""The transactions that hold partitions, or why they are not known."""


@dataclass(slots=True)
class _Held:
    """The first offset that is held back, since when, and whether an event has said so."""

    start: int
    since: float
    is_said: bool = False


class OpenTransactions:
    """What open transactions hold back in one flow, look by look."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._held: dict[TopicPartition, _Held] = {}

    def look(self, partitions: Collection[TopicPartition], now: float) -> None:
        """Records which of *partitions* are held back for too long, and which no longer are."""
        config, source = self._context.config, self._context.source
        if config.isolation != "read_committed":
            return
        stable = source.log_ends(partitions, "read_committed")
        ends = source.log_ends(stable)
        before, self._held = self._held, {}
        for tp, start in stable.items():
            if start < ends.get(tp, start):
                known = before.get(tp)
                is_same = known is not None and known.start == start
                self._held[tp] = known if known and is_same else _Held(start, now)
        ended = [tp for tp, own in before.items() if own.is_said and self._held.get(tp) is not own]
        late = [
            tp
            for tp, own in self._held.items()
            if not own.is_said and now - own.since >= HELD_SECONDS
        ]
        events = [self._ended(tp) for tp in sorted(ended)]
        if late:
            owners = owners_of(self._context, late)
            events += [
                self._begun(tp, ends[tp], owners.get(tp, "no broker names one"))
                for tp in sorted(late)
            ]
        self._context.tables.record_events(config.flow, events)
        for tp in late:
            self._held[tp].is_said = True

    def _begun(self, tp: TopicPartition, end: int, owner: OpenTransaction | str) -> NewEvent:
        start = self._held[tp].start
        text = (
            f"{tp} on {self._context.config.flow.source} waits at offset {start}, before "
            f"{end - start} offsets: they are behind {describe_owner(owner)}. They are copied once "
            f"it has ended. {how_to_abort(tp, start, self._context.source.servers)}"
        )
        columns = {**tp._asdict(), "offset_from": start, "offset_until": end}
        return NewEvent("transaction-open", text, "retry", columns)

    def _ended(self, tp: TopicPartition) -> NewEvent:
        text = f"no transaction holds {tp} on {self._context.config.flow.source} back any more"
        return NewEvent("transaction-ended", text, "retry", tp._asdict())


def owners_of(context: FlowContext, partitions: Collection[TopicPartition]) -> Owners:
    """Returns whose transactions hold *partitions* of the source back."""
    source = context.config.source
    with Transactions(context.jvm, source.alias, source.admin) as transactions:
        return transactions.open_at(partitions)


def describe_owner(owner: OpenTransaction | str) -> str:
    """Describes the transaction of *owner*, or why nobody knows whose it is."""
    if isinstance(owner, str):
        return f"an open transaction. Whose is not known: {owner}"
    name = owner.name or "a transactional id that this user may not DESCRIBE"
    since = (
        f"since {_time(owner.since_ms)}"
        if owner.since_ms is not None
        else f"with its last record of {_time(owner.last_ms)}"
    )
    return f"an open transaction of {name} (producer id {owner.producer_id}), {since}"


def how_to_abort(tp: TopicPartition, start: int, servers: str) -> str:
    """Returns the command that ends the transaction whose first record in *tp* is at *start*."""
    return (
        f"If its producer is gone: kafka-transactions --bootstrap-server {servers} abort --topic "
        f"{tp.topic} --partition {tp.partition} --start-offset {start}"
    )


def _time(ms: int) -> str:
    return f"{utc(ms / 1000):%Y-%m-%d %H:%M:%S} UTC"


# Says what a drain leaves behind open transactions: which offsets, since when, and whose.
#
# A flow that reads committed records stops before the first record of an open transaction, whoever
# wrote the records that follow. A transaction that has ended by the end of the drain is no news:
# the next one copies it, like all that arrived after the start.


class LeftBehind:
    """What one drain does not copy of what was there when it began."""

    def __init__(self, context: FlowContext) -> None:
        self.held_back = OpenTransactions(context)
        self._context = context
        self._flow = context.config.flow
        is_held = self._context.config.isolation == "read_committed"
        self._may_leave = is_held and self._context.config.mode == "drain"
        self._ends: dict[TopicPartition, int] = {}

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Takes note of where *partitions* end now, unless an earlier call has."""
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
    """Describes *span* of *tp*, which *owner* holds back; *owner* may be why that is unknown."""
    start, until = span
    left = (
        f"{until - start} offsets of {tp} on {flow.source}, {start} to {until - 1}, are not copied"
    )
    return (
        f"{left}: they are behind {describe_owner(owner)}. The next drain copies them once it has "
        f"ended. {how_to_abort(tp, start, servers)}"
    )
