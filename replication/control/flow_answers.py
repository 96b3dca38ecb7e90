"""How each flow is: by its last status record, by the group of its lease, else by the tables.

The last record may be of a process that was killed since. It is taken for true only as long as the
next one is not overdue and the lease's group has that process. What is not known is said to be so.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.lease_groups import LeaseGroup, LeaseGroups
from replication.control.status import FlowStatus, flow_status, with_group
from replication.errors import NoAnswerError, ReplicationError
from replication.figures.lag import duration_text, utc
from replication.figures.observation import (
    DOCTOR,
    ENDED,
    Figures,
    FlowState,
    Observation,
    TopicFigures,
    document,
)
from replication.figures.status_store import StatusEntry
from replication.foreign_json import to_json
from replication.kafka.status_topic import StatusReader
from replication.model import Flow, Part
from replication.state.executions import Ending
from replication.state.folder import check_begun
from replication.state.readers import is_quick, open_reader

SeenState = FlowState | Literal["silent", "unknown"]
Health = Literal["ok", "degraded", "bad", "unknown"]

IS_OFF: Final = "status.storage.topic is set to nothing, so that no owner says how its flow is"
MOST_AT_ONCE: Final = 32
TABLES_SECONDS: Final = 10.0
"""How often the tables are read for whoever asks all the time, of flows without a status record."""
LATE_SECONDS: Final = 2.0
"""How late a status record may be, and by how much clocks may differ before that is asked about."""
LONGEST_WAIT_SECONDS: Final = 60.0
"""How long one more record is waited for, whatever interval the last one claims."""

WITHOUT_A_WORD: Final = "no process holds the lease: it ended without a word, or hangs"

ENDINGS: Final[dict[Ending, FlowState]] = {
    "finished": "drained",
    "stopped": "stopped",
    "failed": "failed",
}
"""How the last start of a flow ended, by the table ``executions``, as a state."""


@dataclass(frozen=True, slots=True)
class LastStatus:
    """What the status topic of a flow holds: the last record, and else why there is none."""

    entry: StatusEntry | None = None
    why_not: str = ""
    others: tuple[StatusEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """How a part of a flow is that runs as a job of its own, as in `FlowAnswer`."""

    entry: StatusEntry
    state: SeenState
    why: str
    age: float

    @property
    def is_well(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return self.state not in ("silent", "failed")

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "part": self.entry.part,
            "state": self.state,
            "why": self.why or None,
            "heard_seconds": round(self.age, 1),
            "last_word": document(self.entry.observed, is_stale=is_of_before(self.state)),
        }


def is_of_before(state: str) -> bool:
    """Returns whether the figures of a flow in *state* are not of now: silent, or ended."""
    return state in {"silent", "unknown", *ENDED}


def next_step_of(state: str) -> str:
    """Returns the command that tells why a flow is in *state*; "" where that is as it should be."""
    return DOCTOR if state in {"silent", "failed", "unknown"} else ""


def health_of_flow(
    state: str, heard: Observation | None, *, is_whole: bool, has_troubles: bool
) -> Health:
    """Returns how healthy a flow is now: never `ok` by what was said before, or by nobody.

    Args:
        state: What it does, as whoever asks has seen it.
        heard: Its owner's last word; None without one.
        is_whole: Whether the parts that run as jobs of their own are well.
        has_troubles: Whether the tables tell of some; they count where nothing was heard.
    """
    if state in ("silent", "failed"):
        return "bad"
    if heard is not None:
        return "degraded" if heard.health == "ok" and not is_whole else heard.health
    if state == "unknown":
        return "unknown"
    if has_troubles:
        return "bad"
    return "ok" if state in ENDED else "unknown"


@dataclass(frozen=True, slots=True)
class FlowAnswer:
    """How one flow is.

    Args:
        flow: Which.
        state: What it does; `silent` if its owner should have said more, or is gone.
        why: Why it is silent or unknown.
        last: The last status record of its owner.
        age: How many seconds ago that was written; None without one.
        group: The group of its lease.
        others: Its parts that run as jobs of their own.
        by_tables: What the tables say of it; None if they were not read.
        no_tables: Why they were not.
    """

    flow: Flow
    state: SeenState
    why: str
    last: LastStatus
    age: float | None
    group: LeaseGroup
    by_tables: FlowStatus | None = None
    no_tables: str = ""
    others: tuple[PartAnswer, ...] = ()

    @property
    def health(self) -> Health:
        """How healthy the flow is; `unknown` where nothing is known of it."""
        return health_of_flow(
            self.state, self.heard, is_whole=self.is_whole, has_troubles=self.has_troubles
        )

    @property
    def heard(self) -> Observation | None:
        """What its owner has said last."""
        return None if self.last.entry is None else self.last.entry.observed

    @property
    def aside(self) -> dict[str, str]:
        """Why topics are set aside, by what its owner has said last.

        Not by the conditions, of which those of many topics are one.
        """
        topics = () if self.heard is None else self.heard.topics
        return {one.topic: one.reason for one in topics if one.state == "set-aside"}

    @property
    def is_whole(self) -> bool:
        """Whether the parts that run as jobs of their own are well."""
        return all(part.is_well for part in self.others)

    @property
    def has_troubles(self) -> bool:
        """Whether the tables tell of something that is not replicated."""
        return self.by_tables is not None and bool(self.by_tables.troubles)

    @property
    def standbys(self) -> int | None:
        """How many processes of other machines wait to take the flow over; None if none is known.

        One of the owner's machine waits for a lock of its file system, and is in no group.
        """
        entry, members = self.last.entry, self.group.members
        if entry is None or not entry.member or members is None:
            return None
        return len(members - {entry.member}) or None

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        entry = self.last.entry
        by_tables = {} if self.by_tables is None else to_json(self.by_tables)
        members = self.group.members
        return {
            **by_tables,
            "flow": str(self.flow),
            "state": self.state,
            "health": self.health,
            "why": self.why or None,
            "heard_seconds": None if self.age is None else round(self.age, 1),
            "last_word": entry and document(entry.observed, is_stale=is_of_before(self.state)),
            "standbys": self.standbys,
            "other_jobs": [part.document() for part in self.others],
            "no_word": self.last.why_not or None,
            "no_tables": self.no_tables or None,
            "lease_group": {
                "group": self.group.group,
                "members": None if members is None else sorted(members),
                "unknown": self.group.reason or None,
            },
        }


def judge(entry: StatusEntry, group: LeaseGroup, age: float) -> tuple[SeenState, str]:
    """Returns the state of a flow whose last *entry* is *age* seconds old, and why it is silent."""
    state = entry.observed.state
    if state in ENDED:
        return state, ""
    answer = group.of(entry.member or None)
    if answer == "nobody" and entry.member:
        return "silent", WITHOUT_A_WORD
    if answer == "other" and entry.member:
        return "silent", "its process has lost the lease, and another one is about to take over"
    if age > entry.patience:
        known = {
            "member": ", although its process is in the group of the lease",
            "unknown": f", and whether its process lives is not known: {group.reason}",
        }
        return "silent", f"nothing heard for {duration_text(age)}{known.get(answer, '')}"
    return state, ""


def judge_by_tables(status: FlowStatus | None, group: LeaseGroup) -> tuple[SeenState, str]:
    """Returns the state of a flow that has said nothing, and why if it is silent or unknown."""
    if status is None or status.process is None:
        return "unknown", "no process is known to have run it"
    if status.process.released is not None:
        return ENDINGS.get(status.end.ending, "stopped") if status.end else "stopped", ""
    if status.liveness != "member" and status.end and status.end.at > status.process.since:
        return ENDINGS.get(status.end.ending, "stopped"), ""  # it could not give the lease back
    match status.liveness:
        case "member":
            return "running", ""
        case "nobody":
            return "silent", WITHOUT_A_WORD
        case "other":
            return "silent", "its process has lost the lease, and another one is about to take over"
    return "unknown", group.reason


@dataclass(frozen=True, slots=True)
class PartGroups:
    """The groups of the leases: of each flow's records, and of parts with a job of their own."""

    of_records: Mapping[Flow, LeaseGroup]
    of_parts: Mapping[Part, Mapping[Flow, LeaseGroup]]

    def of(self, entry: StatusEntry) -> LeaseGroup:
        """Returns the one of the part that a status *entry* is about."""
        flow = entry.observed.flow
        return self.of_parts.get(entry.part, {}).get(flow, self.of_records[flow])


def is_doubtful(entry: StatusEntry, group: LeaseGroup) -> bool:
    """Returns whether only the clocks say how old an *entry* is, and they may be wrong.

    Its process lives by its lease's *group*, or has none; the record is too old, or of the future.
    """
    if entry.received is not None or entry.observed.state in ENDED:
        return False
    age = time.time() - entry.said_at
    may_live = not entry.member or group.of(entry.member) == "member"
    return may_live and not -LATE_SECONDS < age <= entry.patience


class FlowAnswers(AbstractContextManager["FlowAnswers"]):
    """Answers how flows are, again and again through the same connections, for the block.

    Args:
        config: The file.
        flows: Which of its flows.
    """

    def __init__(self, config: MirrorConfig, flows: Sequence[FlowConfig]) -> None:
        self._config = config
        self._flows = flows
        self._readers: dict[Flow, StatusReader] = {}
        self._lease_groups = LeaseGroups()
        self._read = _Read(frozenset(), -TABLES_SECONDS, {}, "")

    def __exit__(self, *_: object) -> None:
        """Closes the connections."""
        for reader in self._readers.values():
            reader.__exit__()
        self._lease_groups.__exit__()

    def ask(self, seconds: float = 0.0, *, are_tables_wanted: bool = True) -> list[FlowAnswer]:
        """Returns how each flow is now.

        Args:
            seconds: How long to take in what is said since the last answer.
            are_tables_wanted: Whether the tables are read although all flows have a status record,
                if that is quick. Else they are read of flows without one, every
                `TABLES_SECONDS`.

        Raises:
            NoAnswerError: Neither a status record nor a table tells of any flow.
        """
        with ThreadPoolExecutor(min(len(self._flows), MOST_AT_ONCE) + 2, "status") as pool:
            asked = pool.submit(self._lease_groups.ask, self._flows)
            is_cheap = are_tables_wanted and is_quick(self._config.access)
            read = pool.submit(self._read_tables, self._flows) if is_cheap else None
            last = list(pool.map(lambda flow: self._read_last(flow, seconds), self._flows))
            pairs = zip(self._flows, last, strict=True)
            mute = [flow for flow, one in pairs if one.entry is None]
            if read is None and mute:
                read = pool.submit(self._read_tables if are_tables_wanted else self._known, mute)
            groups = PartGroups(asked.result(), self._of_parts(last))
            tables = read.result() if read else NOT_READ
            last = list(pool.map(partial(self._choose_entry, groups), self._flows, last))
        answers = [
            self._answer(flow.flow, one, groups, tables)
            for flow, one in zip(self._flows, last, strict=True)
        ]
        if not any(one.last.entry or (one.by_tables and one.by_tables.process) for one in answers):
            try:
                check_begun(self._config.state_dir)
            except NoAnswerError as error:
                why_not = "; ".join(dict.fromkeys(one.why_not for one in last))
                raise NoAnswerError(f"{error}. No owner was heard: {why_not}") from None
        return answers

    def _of_parts(self, last: Sequence[LastStatus]) -> dict[Part, dict[Flow, LeaseGroup]]:
        """Asks the groups of parts that run as jobs of their own, and say something."""
        said: dict[Part, list[FlowConfig]] = defaultdict(list)
        for flow, one in zip(self._flows, last, strict=True):
            for entry in (one.entry, *one.others):
                if entry is not None and entry.member and entry.part != "records":
                    said[entry.part].append(flow)
        return {part: self._lease_groups.ask(flows, part) for part, flows in said.items()}

    def _choose_entry(self, groups: PartGroups, config: FlowConfig, last: LastStatus) -> LastStatus:
        """Chooses by the group of the lease whose record counts: anybody may write to the topic.

        Waits for one more where a clock decides whether the last one is too old. The clocks of
        this machine and of the broker may differ, and one that is set by an hour must not make a
        flow silent whose process is in the group of its lease.
        """
        if (reader := self._readers.get(config.flow)) is None or last.entry is None:
            return last
        reader.store.note_members("records", groups.of_records[config.flow].members)
        for part, asked in groups.of_parts.items():
            if config.flow in asked:
                reader.store.note_members(part, asked[config.flow].members)
        last = LastStatus(reader.store.last, others=reader.store.others)
        entries = (last.entry, *last.others)
        doubtful = [w for w in entries if w is not None and is_doubtful(w, groups.of(w))]
        if not doubtful:
            return last
        longest = max(LONGEST_WAIT_SECONDS, 2 * config.status.interval_seconds)
        seconds = min(longest, max(entry.interval for entry in doubtful)) + LATE_SECONDS
        reader.await_entries({entry.part for entry in doubtful}, seconds)
        return LastStatus(reader.store.last, others=reader.store.others)

    def _answer(
        self, flow: Flow, last: LastStatus, groups: PartGroups, tables: "_Read"
    ) -> FlowAnswer:
        by_tables, group = tables.by_tables.get(flow), groups.of_records[flow]
        by_tables = by_tables and with_group(by_tables, group, self._config.state_dir)
        no_tables = tables.no_tables if flow in tables.flows else NOT_READ.no_tables
        if (entry := last.entry) is None:
            state, why = judge_by_tables(by_tables, group)
            return FlowAnswer(flow, state, why, last, None, group, by_tables, no_tables)
        parts = []
        for one in (entry, *last.others):
            if one.received is None:
                age = max(0.0, time.time() - one.said_at)
            else:
                age = time.monotonic() - one.received
            parts.append(PartAnswer(one, *judge(one, groups.of(one), age), age))
        first, *others = parts
        return FlowAnswer(
            flow, first.state, first.why, last, first.age, groups.of(entry), by_tables, no_tables,
            tuple(others),
        )  # fmt: skip

    def _read_last(self, config: FlowConfig, seconds: float) -> LastStatus:
        """Reads what the owner of a flow has said, to the end that its topic has now."""
        if not config.status.storage_topic:
            return LastStatus(None, IS_OFF)
        reader = self._readers.get(config.flow)
        try:
            if reader is None:
                reader = StatusReader(config)
                reader.catch_up()
                self._readers[config.flow] = reader
            else:
                reader.follow(seconds)
        except ReplicationError as error:
            self._readers.pop(config.flow, None)
            if reader is not None:
                reader.__exit__()
            return LastStatus(None, str(error))
        entries = reader.store
        nothing = entries.unreadable or f"topic {reader.name} has no word of the flow"
        return LastStatus(entries.last, "" if entries.last else nothing, entries.others)

    def _known(self, flows: Sequence[FlowConfig]) -> "_Read":
        """Returns what was read of *flows* just now, or reads it."""
        is_old = time.monotonic() - self._read.at >= TABLES_SECONDS
        if is_old or not {flow.flow for flow in flows} <= self._read.flows:
            self._read = self._read_tables(flows)
        return self._read

    def _read_tables(self, flows: Sequence[FlowConfig]) -> "_Read":
        names = frozenset(flow.flow for flow in flows)
        try:
            with open_reader(self._config.access) as state:
                by_tables = {name: flow_status(name, state) for name in names}
        except ReplicationError as error:
            return _Read(names, time.monotonic(), {}, str(error))
        return _Read(names, time.monotonic(), by_tables, "")


@dataclass(frozen=True, slots=True)
class _Read:
    """What the tables say of *flows*, read *at* a time of the monotonic clock; or why not."""

    flows: frozenset[Flow]
    at: float
    by_tables: Mapping[Flow, FlowStatus]
    no_tables: str


NOT_READ: Final = _Read(frozenset(), 0.0, {}, "the words of the flows say it")


@dataclass(frozen=True, slots=True)
class FlowLag:
    """The lag of one flow, and topics of it, the furthest behind first."""

    answer: FlowAnswer
    topics: tuple[TopicFigures, ...]

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        found = self.answer.document()
        said: Any = found["last_word"] or {"topics": (), "figures": {}}
        by_name = {row["topic"]: row for row in said["topics"]}
        return {
            **{name: found[name] for name in ("flow", "state", "why", "heard_seconds", "no_word")},
            "as_of": said.get("as_of"),
            "stale": said.get("stale", True),
            "lag_records": said["figures"].get("lag_records"),
            "lag_seconds": said["figures"].get("lag_seconds"),
            "lag_unknown_partitions": said["figures"].get("lag_unknown_partitions"),
            "topics": [by_name[row.topic] for row in self.topics],
        }


def flow_lag(answer: FlowAnswer, topics: Collection[str], top: int) -> FlowLag:
    """Returns the lag by an *answer*, of *topics*, or of all if there are none, at most *top*."""
    entry = answer.last.entry
    said = () if entry is None else entry.observed.topics
    chosen = [row for row in said if row.topic in topics or not topics]
    chosen.sort(key=lambda row: behind(row.figures), reverse=True)
    return FlowLag(answer, tuple(chosen[:top]))


def behind(figures: Figures) -> tuple[float, float]:
    """Returns what orders topics and partitions by their lag."""
    return figures.get("lag_seconds", -1.0), figures.get("lag_records", -1.0)


# The events of flows: rows of the table, else the last ones that the owners have told.

Details = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True, order=True)
class LoggedEvent:
    """One event; *details* are its further columns, such as topic and offsets."""

    at: datetime
    flow: Flow
    kind: str
    reaction: str
    text: str
    details: Details = ()

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "flow": str(self.flow),
            "at": self.at.isoformat(),
            "kind": self.kind,
            "reaction": self.reaction,
            "text": self.text,
            **dict(self.details),
        }


def read_events(config: MirrorConfig, flows: Sequence[FlowConfig]) -> tuple[list[LoggedEvent], str]:
    """Returns the events of *flows*, the oldest first, and why some may be missing.

    Raises:
        NoAnswerError: Neither the tables nor the owners of the flows tell anything.
    """
    try:
        check_begun(config.state_dir)
        return sorted(_of_tables(config, flows)), ""
    except ReplicationError as error:
        reason = str(error)
    with FlowAnswers(config, flows) as answers:
        last = [one.last for one in answers.ask()]
    by_tables = [one.entry.observed for one in last if one.entry is not None]
    if not by_tables:
        raise NoAnswerError(f"no events are known: {reason}; {last[0].why_not}")
    events = (
        LoggedEvent(
            utc(row.at),
            observed.flow,
            row.kind,
            row.reaction,
            row.text,
            tuple(sorted(row.details.items())),
        )
        for observed in by_tables
        for row in observed.events
    )
    return sorted(events), f"only the last events of each owner are known: {reason}"


def _of_tables(config: MirrorConfig, flows: Sequence[FlowConfig]) -> Iterable[LoggedEvent]:
    known = {"flow", "at", "kind", "reaction", "text", "policy"}
    with open_reader(config.access) as state:
        for flow in flows:
            for row in state.rows("events", flow.flow):
                details = {key: value for key, value in row.items() if key not in known}
                yield LoggedEvent(
                    row["at"],
                    flow.flow,
                    row["kind"],
                    # which tables of earlier versions call a policy
                    row.get("reaction") or row.get("policy") or "",
                    row["text"],
                    tuple(sorted((k, v) for k, v in details.items() if v is not None)),
                )
