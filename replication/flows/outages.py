"""Says in the log and in `events` when a cluster of a flow does not answer, and when it does again.

All parts of a flow share this, whatever they do and in whatever mode. A thread of its own says it,
because those parts may be waiting for the cluster.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from replication.errors import ReplicationError
from replication.java import JVM_GONE
from replication.kafka.watch import ClusterWatch, ObservedSilence, Watches
from replication.log import Log
from replication.model import Flow, NewEvent, Topic, TopicPartition
from replication.state.claim import Claim
from replication.state.tables import Tables

log = Log(__name__)

# Which partitions of one cluster have no leader that answers, and since when.

ELECTION_SECONDS: Final = 3.0
"""So long may a partition be without a leader before that is worth a word."""

OLD_SECONDS: Final = 8.0
"""What was described so long before a broker fell silent does not say whom it led: its partitions
may have moved since. It is as long as it takes to say that a broker is silent."""


@dataclass(frozen=True, slots=True)
class Leaderless:
    """A partition without a leader that answers.

    Args:
        name: As its cluster calls it.
        began: When that began, by a clock of the caller.
        known: Until when that is known to have lasted.
        is_silent: Whether its cluster names a leader, which does not answer.
    """

    name: str
    began: float
    known: float
    is_silent: bool = False


class Leaders:
    """The leaders of a flow's partitions on one of its clusters, look by look.

    Attributes:
        topics: By upstream names, as the cluster described them last. A topic that is not among
            them is not known: what was said of it still holds.
    """

    def __init__(self) -> None:
        self.topics: Mapping[str, Topic] = {}
        self._described = 0.0
        self._said: dict[TopicPartition, Leaderless] = {}
        self._missing_since: dict[TopicPartition, float] = {}

    def describe(self, topics: Mapping[str, Topic], now: float) -> None:
        """Takes the cluster's last description of the flow's topics, by upstream names."""
        self.topics = topics
        self._described = now

    @property
    def said(self) -> frozenset[TopicPartition]:
        """What has no leader that answers, as `look` has said and not taken back."""
        return frozenset(self._said)

    @property
    def silenced(self) -> frozenset[TopicPartition]:
        """What of `said` has a leader by its cluster: who describes it anew does not see that."""
        return frozenset(tp for tp, found in self._said.items() if found.is_silent)

    @property
    def are_there(self) -> bool:
        """Whether each partition had a leader as the cluster described them last."""
        return all(None not in topic.leaders for topic in self.topics.values())

    def leads(self) -> dict[int, TopicPartition]:
        """Returns for each broker that leads one of its partitions, by the cluster's names."""
        found: dict[int, TopicPartition] = {}
        for topic in self.topics.values():
            for number in set(topic.leaders) - found.keys() - {None}:
                if number is not None:
                    found[number] = TopicPartition(topic.name, topic.leaders.index(number))
        return found

    def look(
        self, silent: Mapping[int, float], now: float
    ) -> tuple[dict[TopicPartition, Leaderless], dict[TopicPartition, Leaderless]]:
        """Returns what has begun, and what has ended, since the last look; by upstream partitions.

        *silent* is since when brokers do not answer, by their ids.
        """
        lasting = self._leaderless(silent, now)
        begun = {
            tp: found
            for tp, found in lasting.items()
            if tp not in self._said and found.known - found.began >= ELECTION_SECONDS
        }
        ended = {
            tp: found
            for tp, found in self._said.items()
            if tp not in lasting and tp.topic in self.topics
        }
        self._said = {
            tp: replace(lasting.get(tp, own), began=own.began)
            for tp, own in {**begun, **self._said}.items()
            if tp not in ended
        }
        return begun, ended

    def _leaderless(
        self, silent: Mapping[int, float], now: float
    ) -> dict[TopicPartition, Leaderless]:
        silent = {
            number: began
            for number, began in silent.items()
            if began - self._described <= OLD_SECONDS
        }
        found: dict[TopicPartition, Leaderless] = {}
        missing: dict[TopicPartition, float] = {}
        for upstream, topic in self.topics.items():
            if None not in topic.leaders and silent.keys().isdisjoint(topic.leaders):
                continue
            for number, leader in enumerate(topic.leaders):
                tp = TopicPartition(upstream, number)
                name = f"{topic.name}-{number}"
                if leader is None:  # one look may meet an election: only a later one tells
                    missing[tp] = self._missing_since.get(tp, self._described)
                    found[tp] = Leaderless(name, missing[tp], known=self._described)
                elif leader in silent:
                    found[tp] = Leaderless(name, silent[leader], known=now, is_silent=True)
        self._missing_since = missing
        return found


LOOK_SECONDS: Final = 1.0
REST_SECONDS: Final = 2.0
"""Between two looks while all brokers answer and lead."""

REMIND_SECONDS: Final = 60.0
WAKE_SECONDS: Final = 0.2
"""How late a flow that waits for a cluster learns that it answers."""


class Reached(Protocol):
    """A cluster that is watched."""

    @property
    def alias(self) -> str:
        """Its name in the configuration."""

    @property
    def admin(self) -> Mapping[str, str]:
        """The properties of its admin clients."""


class Outages(AbstractContextManager["Outages"]):
    """The outages of one flow's clusters. Each has a first and a last event, for either cluster.

    Args:
        tables: For the events. A lost lease must not keep them from being written.
        flow: The flow.
        sides: Its source and its target; without a flow, the cluster that gets its heartbeats.
        watches: Of the process.
        is_drain: Whether the flow ends if an outage lasts.
    """

    def __init__(
        self,
        tables: Tables,
        flow: Flow,
        sides: Sequence[Reached],
        watches: Watches,
        *,
        is_drain: bool = False,
    ) -> None:
        self._tables = tables
        self._flow = flow
        self.log = log.bind(flow)
        self._sides = sides
        self._watches = watches
        self._is_drain = is_drain
        self._clusters: list[ClusterWatch] = []  # of the sides
        self._leaders = [Leaders() for _ in sides]
        self._said: dict[str, ObservedSilence] = {}  # by alias
        self._reminded_at = 0.0
        self._claim: Claim | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._resources = ExitStack()

    def begin(self) -> None:
        """Begins to watch; a block that follows ends it."""
        for side in self._sides:
            watch = self._watches.on(side.alias, side.admin)
            self._clusters.append(self._resources.enter_context(watch))
        name = f"{self._flow} outages"
        threading.Thread(target=self._look_on, name=name, daemon=True).start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Ends the watch, and says what a flow fails of, even if it fails within seconds."""
        self._over.set()
        with self._resources:
            for cluster in self._clusters:
                cluster.follow(str(self._flow), {})
            if isinstance(error, ReplicationError):
                for cluster in self._clusters:
                    if cluster.silence is None:
                        cluster.ask()
                self._look()

    @property
    def are_answering(self) -> bool:
        """Whether all clusters have answered the last question."""
        return all(cluster.is_answering for cluster in self._clusters)

    @property
    def _are_calm(self) -> bool:
        return all(cluster.is_calm for cluster in self._clusters) and all(
            leaders.are_there and not leaders.said for leaders in self._leaders
        )

    @property
    def leaderless(self) -> frozenset[TopicPartition]:
        """The upstream partitions that, as it has said, no broker of a cluster leads.

        On the target that is said of their copies.
        """
        return frozenset().union(*(leaders.said for leaders in self._leaders))

    @property
    def silenced(self) -> frozenset[TopicPartition]:
        """Those of them whose cluster still names a leader."""
        return frozenset().union(*(leaders.silenced for leaders in self._leaders))

    @property
    def silences(self) -> Mapping[str, ObservedSilence | None]:
        """The present outage of each of the flow's clusters, by alias; None where there is none."""
        return {cluster.alias: cluster.silence for cluster in self._clusters}

    @property
    def is_standby(self) -> bool:
        """Whether the flow waits for the end of another process's lease."""
        return self._claim is not None and self._claim.is_waiting

    def follow(self, described: Sequence[Mapping[str, Topic]]) -> None:
        """Watches the leaders of what the source and the target have *described*, from now on.

        Args:
            described: Topics by upstream names, for each cluster; empty if they did not answer.
        """
        for cluster, leaders, topics in zip(self._clusters, self._leaders, described, strict=False):
            leaders.describe(topics, time.monotonic())
            cluster.follow(str(self._flow), leaders.leads())

    def stand_by(self, claim: Claim) -> None:
        """Leaves it to the flow's owner to say what begins, while *claim* waits for its end."""
        self._claim = claim

    def own(self) -> None:
        """Says once more that the source is silent: whoever takes the lease says all that it finds.

        The target has just answered, if its watch does not know that yet.
        """
        with self._lock:
            self._claim = None
            source = self._sides[0].alias
            if source in self._said and self._said[source].ended is None:
                del self._said[source]

    def pause(self, seconds: float, stop: threading.Event) -> None:
        """Waits before something is tried again, until a cluster that was silent answers."""
        until = time.monotonic() + seconds
        silent = [cluster for cluster in self._clusters if cluster.silence is not None]
        while time.monotonic() < until and not stop.wait(WAKE_SECONDS):
            if any(cluster.silence is None for cluster in silent):
                return

    def _look_on(self) -> None:
        self._tables.use_background()
        with suppress(*JVM_GONE):  # the JVM has ended, and all flows with it
            while not self._over.wait(REST_SECONDS if self._are_calm else LOOK_SECONDS):
                self._look()

    def _look(self) -> None:
        with self._lock:
            for cluster, leaders in zip(self._clusters, self._leaders, strict=True):
                said, now = self._said.get(cluster.alias), cluster.silence
                if said is not None and said.ended is not None:
                    del self._said[cluster.alias]
                    text = f"cluster {cluster.alias} answers again after {said.seconds} s"
                    self._record("reachable", cluster, text)
                if now is not None and now is not said and not self.is_standby:
                    self._said[cluster.alias] = now
                    self._reminded_at = time.monotonic()
                    goes_on = (
                        "the drain ends if that lasts"
                        if self._is_drain
                        else "the flow waits and tries again until it is stopped"
                    )
                    text = f"{now.reason}; no answer since {now.since:%H:%M:%S} UTC; {goes_on}"
                    self._record("unreachable", cluster, text)
                self._say_leaders(cluster, leaders)
            clock = time.monotonic()
            if self._said and clock - self._reminded_at >= REMIND_SECONDS:
                self._reminded_at = clock
                for alias, silence in self._said.items():
                    self.log.warning(
                        "still_unreachable",
                        cluster=alias,
                        seconds=silence.seconds,
                        text=silence.reason,
                    )

    def _say_leaders(self, cluster: ClusterWatch, leaders: Leaders) -> None:
        if not cluster.is_answering:
            return
        now = time.monotonic()
        silent = {number: own.began for number, own in cluster.silent_brokers.items()}
        begun, ended = leaders.look(silent, now)
        begins = [
            NewEvent(
                "leaderless",
                f"no broker of cluster {cluster.alias} that answers leads {found.name}, for "
                f"{now - found.began:.0f} s: start the broker that has it, or see its log. All "
                "other partitions go on",
                "retry",
                {**tp._asdict(), "cluster": cluster.alias},
            )
            for tp, found in sorted(begun.items())
        ]
        ends = [
            NewEvent(
                "led",
                f"a broker of cluster {cluster.alias} leads {found.name} again after "
                f"{now - found.began:.0f} s",
                "retry",
                {**tp._asdict(), "cluster": cluster.alias},
            )
            for tp, found in sorted(ended.items())
        ]
        self._tables.record_events(self._flow, begins + ends)

    def _record(
        self, kind: Literal["unreachable", "reachable"], cluster: ClusterWatch, text: str
    ) -> None:
        alias = cluster.alias
        self._tables.record_event(self._flow, kind, text, reaction="retry", cluster=alias)
