"""What the tables say of a flow: which process ran it last, and what of it is not replicated.

Tables keep what a process wrote that was killed since. Whether it lives, the group of its lease
says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final

from replication.control.lease_groups import Answer, LeaseGroup
from replication.control.written import Process, last_process
from replication.foreign_json import AS_TEXT, in_json
from replication.model import EventKind, Flow
from replication.state.executions import Ending, last_execution
from replication.state.table_reader import StateReader

BEGINS: Final = frozenset[EventKind](
    {"set-aside", "refused", "transaction-open", "unreachable", "leaderless", "waiting"}
)
ENDS: Final[Mapping[EventKind, frozenset[EventKind]]] = {
    "rejoined": frozenset({"set-aside", "refused"}),
    "source-topic-deleted": frozenset({"set-aside", "refused"}),
    "reachable": frozenset({"unreachable"}),
    "led": frozenset({"leaderless"}),
    "resumed": frozenset({"waiting"}),
    "transaction-ended": frozenset({"transaction-open"}),
}
"""The kind of an event -> the kinds that it ends, of the same topic, partition or cluster."""


_Key = tuple[str | None, int | None, EventKind, str | None]


@dataclass(frozen=True, slots=True)
class OpenTrouble:
    """What is not replicated now: a topic, a partition, or the whole flow if there is no topic.

    ``cluster`` is the alias of the one that is unreachable.
    """

    topic: str | None
    partition: int | None
    kind: EventKind = field(metadata=in_json("event"))
    since: datetime
    reason: str
    cluster: str | None = field(default=None, metadata=in_json(""))


@dataclass(frozen=True, slots=True)
class End:
    """How the last start of a flow ended that another process did not keep out."""

    at: datetime
    ending: Ending
    exit_code: int | None
    cause: str | None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow; ``process`` is None if it never ran, ``end`` if no start of it has ended.

    ``liveness`` is what the group of its lease says of a process that has not given it back.
    """

    flow: Annotated[Flow, AS_TEXT]
    process: Process | None
    liveness: Answer | None
    end: End | None = field(metadata=in_json("last_end"))
    troubles: tuple[OpenTrouble, ...] = field(metadata=in_json("not_replicated"))
    group: LeaseGroup | None = field(default=None, metadata=in_json(""))


def flow_status(flow: Flow, state: StateReader) -> FlowStatus:
    """Reads what *state* says of *flow*; whether its process lives is left open."""
    process = last_process(state.rows("leases", flow))
    troubles = troubles_of(state.rows("events", flow), process)
    last = last_execution(state, flow)
    end = last and End(last["ended_at"], last["ending"], last["exit_code"], last["cause"])
    return FlowStatus(flow, process, None, end or None, troubles)


def with_group(status: FlowStatus, group: LeaseGroup, state_dir: str) -> FlowStatus:
    """Returns *status*, by the tables, with what the group of the flow's lease says of it."""
    process = status.process
    if process is None or process.released is not None:
        return status
    return replace(status, group=group, liveness=group.of(process.instance(state_dir)))


def troubles_of(
    events: Iterable[Mapping[str, Any]], process: Process | None
) -> tuple[OpenTrouble, ...]:
    """Returns what has begun and not ended, sorted by topic.

    Each process tries everything that an earlier one had set aside, and records what fails again,
    so events before *process*, the last one, took the flow say nothing. *events* come in any order.
    """
    open_now: dict[_Key, OpenTrouble] = {}
    for row in sorted(events, key=lambda row: row["at"]):
        if process is not None and row["at"] < process.since:
            continue
        topic, partition, kind = row["topic"], row["partition"], row["kind"]
        cluster = row.get("cluster")  # which tables of earlier versions lack
        if kind in BEGINS:
            trouble = OpenTrouble(topic, partition, kind, row["at"], row["text"], cluster)
            open_now[topic, partition, kind, cluster] = trouble
        is_gone = kind == "source-topic-deleted"
        for key in list(open_now):
            is_same = (key[0], key[3]) == (topic, cluster) and (is_gone or key[1] == partition)
            if is_same and key[2] in ENDS.get(kind, ()):
                del open_now[key]

    def order(key: _Key) -> tuple[str, int, str, str]:
        topic, partition, kind, cluster = key
        return topic or "", -1 if partition is None else partition, kind, cluster or ""

    return tuple(open_now[key] for key in sorted(open_now, key=order))
