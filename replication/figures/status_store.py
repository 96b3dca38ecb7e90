"""The status records of a flow: from one observation of it to records, and back. Pure.

They have Connect's form. A reader keeps the newest one of each part and topic, and none of an
earlier owner: that may have been paused, and does not know of its end.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from replication.figures.observation import (
    ENDED,
    GroupFigures,
    Observation,
    TopicFigures,
    document,
    observation,
)
from replication.foreign_json import from_json, number, text, to_json, whole
from replication.mm2.status_records import (
    Connector,
    StatusKey,
    StatusRecordError,
    own_part,
    topic_value,
    worker_value,
)
from replication.model import PARTS, Flow, Part

VERSION: Final = 1
CONNECTORS: Final[Mapping[Part, Connector]] = {
    "records": "MirrorSourceConnector",
    "checkpoints": "MirrorCheckpointConnector",
    "metadata": "MirrorMetadataConnector",
    "heartbeats": "MirrorHeartbeatConnector",
}
"""The parts of a flow that have a status record of their own, by the names of connectors. What
else a process does belongs to the first."""

LEASED: Final = frozenset[Part]({"records", "checkpoints", "metadata"})
"""The parts of which only the owner of a lease speaks."""

LONGEST_INTERVAL: Final = 2 * 31_536_000
"""The longest that ``status.publish.interval.seconds`` takes, and twice that of many partitions."""

CLOCKS_SECONDS: Final = 300.0
"""By how much the clock of an owner may be ahead of the broker's."""

MOST_MEMBERS: Final = 16
"""Of so many the last record is kept: those of strangers go first."""

MOST_GROUPS: Final = 100
MOST_EVENTS: Final = 20
MOST_PARTITIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Holder:
    """By what a process may speak for a part of a flow.

    Args:
        epoch: Of the part's lease; 0 for what has none.
        member: Its static id in the lease's group; "" without one.
        worker: What Connect shows: ``host/A->B/UUID``.
        since: When it took the lease, in epoch seconds; None for what has none.
    """

    epoch: int
    member: str
    worker: str
    since: float | None = None


_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka lets a topic have."""

Speaker = tuple[int, str]
"""The epoch of a lease, and the member of its group that had it. Epochs begin anew with a new state
directory, so that two owners may have the same one."""


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """What was said last of a part of a flow.

    Args:
        observed: The observation of the flow.
        epoch: Of the lease by which it was said.
        member: The static id of whoever said it, in the lease's group; "" if it is in none.
        interval: After how many seconds the next one is due.
        said_at: When, in epoch seconds of the broker.
        part: The part.
        received: When it came in, by this process's own clock; None if it was there already.
        since: When whoever said it took the lease; None if that is not known.
    """

    observed: Observation
    epoch: int
    member: str
    interval: float
    said_at: float
    part: Part = "records"
    received: float | None = None
    since: float | None = None

    @property
    def speaker(self) -> Speaker:
        """Who wrote it."""
        return self.epoch, self.member

    @property
    def patience(self) -> float:
        """For how many seconds nothing may come: three records may be lost."""
        return 3 * self.interval + 5


class StatusStore:
    """What has been said of one flow.

    Anybody who may write to the topic may say anything, by any epoch. So the records of several
    members are kept, the last one of each. One whom the lease's group has is believed before one
    whom it once had, and that one before any other; among others the epoch decides.

    Args:
        flow: The flow; records of others are ignored.

    Attributes:
        unreadable: What was wrong with the last record that was none.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.unreadable = ""
        self._said: dict[Part, dict[str, StatusEntry]] = {}  # by member, who spoke last at the end
        self._members: dict[Part, frozenset[str]] = {}
        self._met: dict[Part, frozenset[str]] = {}
        self._topics: dict[str, dict[Speaker, TopicFigures]] = {}
        self._last: StatusEntry | None = None
        self._is_known = True

    def take(
        self,
        key: bytes | None,
        value: bytes | None,
        said_at: float,
        received: float | None = None,
    ) -> None:
        """Takes a record of the status topic; what is not ours is ignored.

        Args:
            key: Of the record.
            value: The same.
            said_at: When the broker took it, in epoch seconds.
            received: When it came in, by this process's own clock; None if it was there already.
        """
        self._is_known = False
        try:
            of = StatusKey.decode(key)
        except StatusRecordError:
            return  # other versions may have other records
        try:
            ours = own_part(value)
            if of.topic is not None:
                self._take_topic(of.topic, ours)
            elif of.task is None and ours is not None:
                self._take_part(of.connector, ours, said_at, received)
        except (KeyError, TypeError, ValueError) as error:
            self.unreadable = f"a word of another version, or of nobody: {error!r:.200}"

    def note_members(self, part: Part, members: frozenset[str] | None) -> None:
        """Notes who is in the group of a *part*'s lease; None is unknown, and changes nothing."""
        if members is None or members == self._members.get(part):
            return
        self._members[part] = members
        said = self._said.get(part, {})
        self._met[part] = (self._met.get(part, frozenset()) | members) & said.keys()
        self._is_known = False

    def are_live(self, parts: Iterable[Part]) -> bool:
        """Returns whether records of all *parts* have come in since the topic's end was reached."""
        return all(
            (entry := self.of(part)) is not None and entry.received is not None for part in parts
        )

    def of(self, part: Part) -> StatusEntry | None:
        """Returns the last record of *part*."""
        if not (said := self._said.get(part)):
            return None
        members = self._members.get(part, frozenset())
        if present := [entry for member, entry in said.items() if member in members]:
            return present[-1]  # only the owner of a lease speaks
        met = self._met.get(part, frozenset())
        entries = [entry for member, entry in said.items() if member in met] or list(said.values())
        return reduce(lambda known, entry: known if _is_earlier(entry, known) else entry, entries)

    @property
    def others(self) -> tuple[StatusEntry, ...]:
        """The last records of parts that run as jobs of their own, beside the one of `last`."""
        entries = [entry for part in CONNECTORS if (entry := self.of(part))]
        covered = PARTS[job] if entries and (job := entries[0].observed.runs) else frozenset[Part]()
        return tuple(entry for entry in entries[1:] if entry.part not in covered)

    @property
    def last(self) -> StatusEntry | None:
        """The last record of the flow with what is known of its topics and groups; None without."""
        if not self._is_known:  # since a record came
            self._last = self._put_together()
            self._is_known = True
        return self._last

    def _put_together(self) -> StatusEntry | None:
        entry = next((entry for part in CONNECTORS if (entry := self.of(part))), None)
        if entry is None:
            return None
        records = self.of("records")
        speaker = None if records is None else records.speaker
        # an earlier owner may have replicated other topics, and its records may come in late
        known = {name: said[speaker] for name, said in self._topics.items() if speaker in said}
        topics = tuple(known[name] for name in sorted(known))
        groups, checkpoints = entry.observed.groups, self.of("checkpoints")
        if not groups and checkpoints is not None:
            groups = checkpoints.observed.groups
        return replace(entry, observed=replace(entry.observed, topics=topics, groups=groups))

    def _take_part(
        self, connector: str, ours: Mapping[str, Any], said_at: float, received: float | None
    ) -> None:
        part = next((part for part, name in CONNECTORS.items() if name == connector), None)
        if part is None:
            return
        observed = observation(ours["observation"])
        if observed.flow != self.flow:
            return
        epoch, member = _speaker(ours)
        if part in LEASED and not member:
            raise ValueError("a word without a member")
        owner = observed.owner  # which versions before say instead; the record of an end has none
        since = ours.get("since", owner and owner.since)
        # nobody has a lease from a later time on; clocks of owner and broker may differ
        since = None if since is None else min(number(since), said_at + CLOCKS_SECONDS)
        interval = number(ours["interval"])
        if not 0 < interval <= LONGEST_INTERVAL:
            raise ValueError("no word comes so rarely")
        said = self._said.setdefault(part, {})
        said.pop(member, None)
        said[member] = StatusEntry(
            observed, epoch, member, interval, said_at, part, received, since
        )
        strangers = (one for one in said if one not in (member, *self._trusted(part)))
        if len(said) > MOST_MEMBERS and (oldest := next(strangers, None)) is not None:
            del said[oldest]

    def _trusted(self, part: Part) -> frozenset[str]:
        known = self._members.get(part, frozenset()) | self._met.get(part, frozenset())
        believed = self.of(part)
        return known if believed is None else known | {believed.member}

    def _take_topic(self, topic: str, ours: Mapping[str, Any] | None) -> None:
        if ours is None:
            self._topics.pop(topic, None)
            return
        row, speaker = from_json(TopicFigures, ours["row"]), _speaker(ours)
        if row.topic != topic or not _TOPIC.fullmatch(topic):
            raise ValueError("a word of another topic than its key")
        said = self._topics.setdefault(topic, {})
        said.pop(speaker, None)
        said[speaker] = row
        if len(said) > MOST_MEMBERS:
            records = self.of("records")
            del said[next(one for one in said if records is None or one != records.speaker)]


def _speaker(ours: Mapping[str, Any]) -> Speaker:
    return whole(ours["epoch"]), text(ours["member"])


def _is_earlier(entry: StatusEntry, known: StatusEntry) -> bool:
    """Returns whether *entry* is of an owner before that of the *known* one.

    Where the table of leases has begun anew, so have the epochs: then the later owner counts. And
    whoever has an epoch that no owner reaches, and is silent, does not silence the others for good.
    """
    if entry.epoch >= known.epoch or entry.part not in LEASED:
        return False
    is_overdue = entry.said_at - known.said_at > entry.patience
    if is_overdue and known.observed.state not in ENDED:
        return False
    return entry.since is None or known.since is None or entry.since <= known.since


def part_statuses(
    observed: Observation, holders: Mapping[Part, Holder], interval_seconds: int
) -> dict[StatusKey, bytes | None]:
    """Returns the records of the parts that this process holds; the first one has the figures.

    Args:
        observed: One observation of the flow, without its topics.
        holders: By part.
        interval_seconds: How often a record comes.
    """
    found: dict[StatusKey, bytes | None] = {}
    spoken = _bounded(observed)
    for part, connector in CONNECTORS.items():
        if (holder := holders.get(part)) is None:
            continue
        shown = document(spoken)
        shown["figures"] = _known(shown["figures"])
        ours = {**_ours(holder), "interval": interval_seconds, "observation": shown}
        trace = spoken.text or "failed" if spoken.state == "failed" else ""
        state, generation = spoken.state, spoken.generation
        value = worker_value(state, holder.worker, generation or 0, trace, ours)
        found[StatusKey(connector)] = value
        if part == "records":
            task = None
            if generation is not None and state not in ENDED:
                task = worker_value(state, holder.worker, generation, "", _ours(holder))
            found[StatusKey(connector, task=0)] = task
        # the others say who runs the flow, and nothing of what this record says
        spoken = replace(
            spoken, conditions=(), figures={}, histograms={}, labelled={}, groups=(), events=()
        )
    return found


class TopicStatuses:
    """The status records of topics; that of a topic which is what it was is not made again."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[TopicFigures, bytes]] = {}
        self._speaker: tuple[Holder, int] | None = None

    def take(self, observed: Observation, holder: Holder) -> dict[str, bytes]:
        """Returns the records of the topics of *observed*, by topic."""
        since_ms = round((observed.owner.since if observed.owner else observed.since) * 1000)
        if self._speaker != (holder, since_ms):
            self._made = {}
        self._speaker = holder, since_ms
        before, self._made = self._made, {}
        for topic in observed.topics:
            known = before.get(topic.topic)
            if known is None or known[0] != topic:
                ours = {**_ours(holder), "row": _worst(to_json(topic))}
                known = topic, topic_value(topic.topic, CONNECTORS["records"], since_ms, ours)
            self._made[topic.topic] = known
        return {name: entry for name, (_, entry) in self._made.items()}


def topic_key(topic: str) -> StatusKey:
    """Returns the key of a *topic*'s status record."""
    return StatusKey(CONNECTORS["records"], topic=topic)


def _ours(holder: Holder) -> dict[str, object]:
    known = {} if holder.since is None else {"since": holder.since}
    return {"v": VERSION, "epoch": holder.epoch, "member": holder.member, **known}


def _bounded(observed: Observation) -> Observation:
    """Returns *observed* as far as one record holds it; topics have records of their own."""
    groups = sorted(observed.groups, key=_backlog, reverse=True)[:MOST_GROUPS]
    in_order = tuple(sorted(groups, key=lambda group: group.group))
    return replace(observed, topics=(), groups=in_order, events=observed.events[:MOST_EVENTS])


def _backlog(group: GroupFigures) -> tuple[float, float]:
    figures = group.figures
    return figures.get("group_blocked", 0.0), figures.get("group_position_age_seconds", 0.0)


def _worst(row: Mapping[str, Any]) -> dict[str, object]:
    """Returns a topic's *row* without what is unknown, and with its worst partitions only."""
    parts: Iterable[Mapping[str, Any]] = row["partitions"]
    worst = sorted(parts, key=_lag, reverse=True)[:MOST_PARTITIONS]
    partitions = [
        {**part, "figures": _known(part["figures"])}
        for part in sorted(worst, key=lambda part: int(part["partition"]))
    ]
    return {**row, "figures": _known(row["figures"]), "partitions": partitions}


def _lag(part: Mapping[str, Any]) -> tuple[int, float, float]:
    figures = part["figures"]
    seconds, records = figures.get("lag_seconds"), figures.get("lag_records")
    rank = {"copying": 0, "catching-up": 0, "lagging": 0, "paused": 1}.get(part["state"], 2)
    return rank, seconds or 0.0, records or 0.0


def _known(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value is not None}
