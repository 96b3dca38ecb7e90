"""Watches whether a cluster and its brokers answer: small questions, always, for all flows.

What else fails while a cluster is away says so late, or not at all: a consumer waits without an
error, a request fails after its own timeout. So nothing infers an outage from failures; whoever
wants to know asks the watch.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

from replication.config.client_keys import QUICK_RETURN
from replication.errors import ReplicationError
from replication.java import JVM_GONE
from replication.kafka.api import Admin, Call, ClientError, ClientFailure
from replication.kafka.calls import open_admin
from replication.kafka.cluster import DENIED
from replication.kafka.diagnosis import call_error
from replication.kafka.reach import MUTE, Silence, reach_of
from replication.log import Log
from replication.model import Isolation, TopicPartition

log = Log(__name__)

LOG_ENDS_ANSWER_SECONDS: Final = 4.0
"""How long a request waits."""


class LogEnds(AbstractContextManager["LogEnds"]):
    """The ends of the logs of one cluster, asked every few seconds. Used by one thread.

    Unlike `Cluster.log_ends` it describes nothing, tries nothing again and raises for the cluster
    as a whole only: a partition whose leader does not answer in time is absent.

    Attributes:
        denied: The topics whose ends the last call lacks, as the user may not describe them.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of its admin clients, in Java's key space.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self.denied = frozenset[str]()
        self._alias = alias
        self._properties = properties
        self._admin: Admin | None = None

    def __exit__(self, *_: object) -> None:
        if self._admin is not None:
            self._admin.close()

    def ask(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """Returns the ends of *partitions*, without those whose end is unknown.

        Raises:
            ReplicationError: No client can be created, or nobody answers.
        """
        if not partitions:
            return {}
        try:
            if self._admin is None:
                self._admin = open_admin(
                    self._properties,
                    "replication-observe",
                    LOG_ENDS_ANSWER_SECONDS,
                    prefers_java=True,
                )
            answers = self._admin.ends(partitions, isolation, LOG_ENDS_ANSWER_SECONDS)
        except ClientError as error:
            call = Call("asking where logs end")
            raise call_error(self._alias, self._properties, call, error.failure) from None
        failures = {tp: one for tp, one in answers.items() if isinstance(one, ClientFailure)}
        self.denied = frozenset(tp.topic for tp, one in failures.items() if one.code == DENIED)
        return {tp: one for tp, one in answers.items() if not isinstance(one, ClientFailure)}


LOOK_SECONDS: Final = 1.0
"""Between two questions while one was not answered."""

REST_SECONDS: Final = 2.0
"""The same while all are answered."""

ANSWER_SECONDS: Final = 2.0
"""How long a question waits. A broker that is paused keeps its connections and never answers."""

PING_SECONDS: Final = 1.0
"""How long any broker has for its answer, before all addresses are asked."""

LATE_SECONDS: Final = 0.5
"""A leader that has not answered the client after so long is asked at its own address."""

SILENT_SECONDS: Final = 8.0
"""Without an answer, a cluster is said to be silent: longer than an election, or a long pause of a
broker's JVM, and short enough for an event within 15 s."""

Key = tuple[str, frozenset[tuple[str, str]]]
Leads = Mapping[int, TopicPartition]
"""For brokers, by their ids, a partition that each leads."""


@dataclass(slots=True)
class ObservedSilence:
    """A time without answers, from the last one on.

    Args:
        since: The last answer, or the first question.
        began: The same by the process's own clock.
        reason: Why the questions failed, with the cluster's address and the next step.
        ended: The first answer after it, by the process's clock; None while it lasts.
    """

    since: datetime
    began: float
    reason: str
    ended: float | None = None

    @property
    def seconds(self) -> int:
        return round((self.ended or time.monotonic()) - self.began)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of day, and the same by the process's own clock."""

    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    clock: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Answers:
    """The answers of a cluster, or of one broker, to one question after the other. Pure.

    Args:
        last: The time of the last answer; in the beginning, of the first question.
        failures: Questions without an answer since then.
        silence: The present outage; None while there are answers, and in its first seconds.
    """

    last: Moment = field(default_factory=Moment)
    failures: int = 0
    silence: ObservedSilence | None = None

    def take(self, reason: str, now: Moment, patience: float = SILENT_SECONDS) -> None:
        """Takes the outcome of a question.

        Args:
            reason: Why there was no answer; empty if there was one.
            now: When that was known.
            patience: How long a silence is not worth a word.
        """
        if not reason:
            self.failures = 0
            self.last = now
            if self.silence is not None:
                self.silence.ended = now.clock
                self.silence = None
            return
        self.failures += 1
        is_over = now.clock - self.last.clock >= patience
        # a process that was suspended itself finds one question unanswered, not two
        if self.silence is None and is_over and (self.failures > 1 or not patience):
            self.silence = ObservedSilence(self.last.at, self.last.clock, reason)


class ClusterWatch:
    """The watch of one cluster; `close` ends it.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of its admin clients, in Java's key space.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self.alias = alias
        self._properties = properties
        self._opened = list[Admin]()
        self._whole = Answers()
        self._brokers = dict[int, Answers]()
        self._leads: dict[str, Leads] = {}  # by user
        self._addresses = dict[int, str]()  # of the brokers, as the cluster named them last
        self._reach = reach_of(properties)
        self._over = threading.Event()
        self._asking = threading.Lock()
        threading.Thread(target=self._watch, name=f"{alias} watch", daemon=True).start()

    def close(self) -> None:
        """Ends the watch, with the question that is under way."""
        self._over.set()

    @property
    def silence(self) -> ObservedSilence | None:
        """The cluster's present outage; None while it answers, and in its first seconds."""
        return self._whole.silence

    @property
    def is_answering(self) -> bool:
        return not self._whole.failures

    @property
    def is_calm(self) -> bool:
        """Whether the last question was answered by all brokers that were asked."""
        return self.is_answering and not any(own.failures for own in self._brokers.values())

    @property
    def silent_brokers(self) -> Mapping[int, ObservedSilence]:
        """The brokers that do not answer, of those that lead followed partitions."""
        brokers = self._brokers
        return {number: own.silence for number, own in brokers.items() if own.silence is not None}

    def follow(self, user: str, leads: Leads) -> None:
        """Asks the brokers of *leads* from now on, besides those of other users."""
        self._leads = {**self._leads, user: leads}

    def ask(self) -> None:
        """Asks once more, at once. A failure counts as the end of all patience."""
        self._ask(patience=0.0)

    def _watch(self) -> None:
        while not self._over.wait(REST_SECONDS if self.is_calm else LOOK_SECONDS):
            self._ask(SILENT_SECONDS)
        for admin in self._opened:
            admin.close()

    def _ask(self, patience: float) -> None:
        leads = {number: tp for some in self._leads.values() for number, tp in some.items()}
        with self._asking:
            reason, outcomes = self._question(leads)
            was_silent = self._whole.silence is not None
            self._whole.take(reason, Moment(), patience)
            # behind an outage of the cluster, each broker has the time of a start
            known = {} if was_silent else self._brokers
            brokers = {number: known.get(number) or Answers() for number in leads}
            for number, own_reason in outcomes.items():
                brokers[number].take(own_reason, Moment())
            self._brokers = brokers

    def _question(self, leads: Leads) -> tuple[str, dict[int, str]]:
        """Returns why no broker answered, and why each of *leads* did not; empty if one did.

        A broker has no outcome where that is not known.
        """
        try:
            is_known = leads.keys() <= self._addresses.keys()
            is_pinged = not (leads and is_known) and self._learn_addresses()
            answered, asked = self._ask_brokers(leads)
            silence = "" if is_pinged or answered else self._silence()
            wait(asked.values(), ANSWER_SECONDS)
            met = {number: one.result() if one.done() else MUTE for number, one in asked.items()}
            outcomes = {number: "" if one is None else one.text for number, one in met.items()}
            if any(outcomes.values()) and not silence:  # a broker may have moved
                self._learn_addresses()
        except (ClientError, ReplicationError) as error:  # there is no client: a wrong property
            log.debug("watch_failed", cluster=self.alias, text=error)
            return self._silence(), {}
        except Exception:  # the thread must outlive what nobody has foreseen
            log.exception("watch_failed", cluster=self.alias, text="please report this")
            return self._silence(), {}
        outcomes |= dict.fromkeys(answered, "")
        return silence if all(outcomes.values()) else "", outcomes

    def _learn_addresses(self) -> bool:
        """Asks any broker for the addresses of all; false if none answers."""
        with suppress(ClientError):
            # one that the cluster has expelled keeps its address: it is asked until it is back
            self._addresses |= self._admin.brokers(PING_SECONDS)
            return True
        return False

    def _ask_brokers(self, leads: Leads) -> tuple[set[int], dict[int, "Future[Silence | None]"]]:
        """Returns the brokers that have said where a log ends, and the questions to the late ones.

        These go to each broker's own address: the client may have failed, or wait, for want of
        another broker, which it asks first who leads the partition.
        """
        ends: Mapping[TopicPartition, int | ClientFailure] = {}
        if leads:
            admin = self._admin
            with suppress(ClientError, *JVM_GONE):  # or the JVM has ended, and all flows with it
                ends = admin.ends(leads.values(), "read_uncommitted", LATE_SECONDS)
        # an error may be another broker's, or the client's
        answered = {number for number, tp in leads.items() if isinstance(ends.get(tp), int)}
        late = self._addresses.keys() & (leads.keys() - answered)
        return answered, {number: self._reach.ask(self._addresses[number]) for number in late}

    def _silence(self) -> str:
        """Returns why no address answers; empty if one does, whatever keeps the client."""
        silence = self._reach.look()
        if silence is None:
            return ""
        call = Call("asking whether it answers")
        return str(call_error(self.alias, self._properties, call, silence))

    @property
    def _admin(self) -> Admin:
        if not self._opened:
            properties = {**self._properties, **QUICK_RETURN}
            name = "replication-watch"
            # where one broker is paused, librdkafka may ask that one for minutes
            self._opened.append(open_admin(properties, name, ANSWER_SECONDS, prefers_java=True))
        return self._opened[0]


class Watches:
    """The watches of a process: one for each cluster, however many flows it has."""

    def __init__(self) -> None:
        self._watches: dict[Key, ClusterWatch] = {}
        self._users = Counter[Key]()
        self._lock = threading.Lock()

    @contextmanager
    def on(self, alias: str, properties: Mapping[str, str]) -> Iterator[ClusterWatch]:
        """Yields the watch of a cluster, which ends with the last of its users' blocks."""
        key = alias, frozenset(properties.items())
        with self._lock:
            if key not in self._watches:
                self._watches[key] = ClusterWatch(alias, properties)
            self._users[key] += 1
        try:
            yield self._watches[key]
        finally:
            with self._lock:
                self._users[key] -= 1
                if not self._users[key]:
                    self._watches.pop(key).close()
