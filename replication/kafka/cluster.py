"""The topics of one Kafka cluster: names, partitions, offsets, settings. Never reads a record.

Every call is one batched request. Retriable errors are retried; within the configured timeout the
call returns, or raises a `ClusterError` that names call, cluster, value and next step.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final, Literal, TypeVar

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.kafka.api import (
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    EARLIEST,
    GROW_TOPIC,
    LATEST,
    LIST_OFFSETS,
    READ_SETTINGS,
    READ_TOPIC,
    WRITE_TOPIC,
    Call,
    ClientFailure,
    Listing,
    Settings,
)
from replication.kafka.calls import Calls, is_secured
from replication.kafka.diagnosis import NOT_FOUND, RETRIABLE, CallError
from replication.model import Isolation, NewTopic, Topic, TopicPartition

RECORDS_AT_ONCE = 2_000
"""Metadata records by one request that creates topics. A controller rejects all topics of a request
that takes more than 10 000 of them (``POLICY_VIOLATION``: "Excessively large number of partitions
per request"). Far fewer, so that the answer comes within the timeout."""


def requests(topics: Iterable[NewTopic]) -> Iterator[dict[str, NewTopic]]:
    """Yields *topics* by name, one group per request; a topic of many partitions is alone."""
    group: dict[str, NewTopic] = {}
    records = 0
    for topic in topics:
        own = 1 + topic.partitions + len(topic.configs)
        if group and records + own > RECORDS_AT_ONCE:
            yield group
            group, records = {}, 0
        group[topic.name] = topic
        records += own
    if group:
        yield group


ResultT = TypeVar("ResultT")


class Rejections:
    """The topics that one cluster rejected so far. ``texts`` has the reason for each, by name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def call(self, send: Callable[[Collection[str]], ResultT], topics: Iterable[str]) -> ResultT:
        """Calls *send* for *topics* without the rejected ones.

        Raises:
            CallError: The cluster as a whole fails.
        """
        names = set(topics)
        while True:
            try:
                return send(names - self.texts.keys())
            except CallError as error:  # noqa: PERF203 - a loop of retries
                if not names & error.rejected.keys() - self.texts.keys():
                    raise
                self.texts.update(error.rejected)


Operation = Literal["DESCRIBE", "READ", "WRITE"]

CALLS: Final[dict[Operation, Call]] = {
    "DESCRIBE": DESCRIBE_TOPIC,
    "READ": READ_TOPIC,
    "WRITE": WRITE_TOPIC,
}
DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"


PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
ID_SECONDS: Final = 60.0
"""How long a cluster's id is taken for known: its address may come to mean another one."""

ANSWERS: Final = 3
NEAR_S: Final = 0.005
"""An answer within this needs no second look: the cluster is not far away."""

LIBRDKAFKA_IDS: Final = str.maketrans("-_", "+/")
"""librdkafka writes ids of topics in another alphabet than Java. State directories have those of
the client that a connection has by default, and both clients may read one."""


class Cluster(AbstractContextManager["Cluster"]):
    """One Kafka cluster, through an admin client. Threads may share it.

    Args:
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        client_id: The client's role; it is appended to a ``client.id`` of *properties*.
        patience_s: How long it may be silent, where an answer is not worth the usual time.
        prefers_java: Whether to use Java's client, where there is one: confluent-kafka's waits for
            minutes for a controller that is paused, while other brokers answer.
    """

    def __init__(
        self,
        alias: str,
        properties: Mapping[str, str],
        *,
        client_id: str = "replication-admin",
        patience_s: float | None = None,
        prefers_java: bool = False,
    ) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._calls = Calls(alias, properties, client_id, patience_s, prefers_java=prefers_java)
        self._is_secured = is_secured(properties)
        self._id = ""
        self._known_until = 0.0
        self._brokers = frozenset[str]()

    def __exit__(self, *_: object) -> None:
        self._calls.close()

    def __repr__(self) -> str:
        return f"Cluster({self.alias!r}, {self.servers!r})"

    def cluster_id(self) -> str:
        """Returns the cluster's own id, which is the same for two aliases of one cluster.

        Any broker knows it. The request that describes a cluster goes to the controller, and waits
        for minutes where that broker has died. An answer holds for `ID_SECONDS`.
        """
        if time.monotonic() >= self._known_until:
            self._list("reading the cluster id")
        return self._id

    @property
    def is_silent(self) -> bool:
        """Whether no address answers now; known at once, and in seconds where nobody refuses."""
        return self._calls.reach.await_answer(0.0) is not None

    def brokers(self) -> frozenset[str]:
        """Returns the addresses of all brokers, as this client is told to connect to them."""
        if time.monotonic() >= self._known_until:
            self._list("reading the brokers")
        return self._brokers

    def round_trip_s(self) -> float:
        """Returns how many seconds the smallest question takes, which any broker answers.

        Each start of a reading asks anew. The shortest of some answers counts, if the first one
        took long: a broker may have been busy.

        Raises:
            CallError: The cluster does not answer.
        """
        took: list[float] = []
        while len(took) < ANSWERS and (not took or min(took) > NEAR_S):
            began = time.monotonic()
            self._calls.ask(Call("measuring the distance"), self._calls.admin.brokers)
            took.append(time.monotonic() - began)
        return min(took)

    def topic_names(self) -> set[str]:
        """Returns the names of all topics this user may see, Kafka's own among them."""
        return set(self._list("listing topics").topics)

    def _list(self, call: str) -> Listing:
        found = self._calls.ask(Call(call), self._calls.admin.listing)
        self._id = found.cluster_id
        self._known_until = time.monotonic() + ID_SECONDS
        self._brokers = frozenset(found.brokers.values())
        return found

    def describe(self, names: Iterable[str], *, listed: bool = False) -> dict[str, Topic]:
        """Describes the topics of *names* that exist.

        Args:
            names: The topics.
            listed: Whether `topic_names` gave *names*. Brokers learn of a new topic one after the
                other, so a topic that the answering broker does not know is asked for again while
                the cluster lists it.
        """
        results = self._calls.results(
            Call("describing topics"),
            self._calls.admin.topics,
            names,
            lambda missing: self.topic_names().intersection(missing) if listed else (),
        )
        found = self._calls.require(DESCRIBE_TOPIC, results, {NOT_FOUND})
        if self._is_secured:
            return found
        return {
            name: replace(topic, topic_id=topic.topic_id.translate(LIBRDKAFKA_IDS))
            for name, topic in found.items()
        }

    def denied(self, operation: Operation, topics: Iterable[str]) -> dict[str, str]:
        """Returns why this user may not do an *operation* with those *topics* where it may not.

        Topics that do not exist are absent. A broker that is older than Kafka 2.3 does not answer
        the question, so that nothing is denied.
        """
        asked = Call("asking for permissions on topics")
        results = self._calls.results(asked, self._calls.admin.rights, topics)
        visible = self._calls.require(DESCRIBE_TOPIC, results, {NOT_FOUND, DENIED})
        denied = {
            name
            for name, found in results.items()
            if isinstance(found, ClientFailure) and found.code == DENIED
        }
        denied |= {
            name
            for name, rights in visible.items()
            if rights is not None and operation not in rights
        }
        return {name: self._calls.denial(CALLS[operation].of(name)) for name in sorted(denied)}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition; partitions that do not exist are absent."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted")

    def log_ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """Returns the next offset to be written; partitions that do not exist are absent.

        With ``read_committed`` it is the last stable offset, where the first open transaction
        starts.
        """
        return self._offsets(dict.fromkeys(partitions, LATEST), isolation)

    def ends_at_once(
        self, partitions: Collection[TopicPartition], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, int]:
        """Returns what `log_ends` does, by one request; absent where no broker says it in time."""
        ends = partial(self._calls.admin.ends, partitions, isolation)
        found = self._calls.ask(LIST_OFFSETS, ends, timeout_s) if partitions else {}
        return {tp: end for tp, end in found.items() if not isinstance(end, ClientFailure)}

    def leader_epochs(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the epoch of each partition's leader; absent where no broker says it at once.

        Args:
            partitions: Of the cluster.
            timeout_s: How long to wait for answers, instead of the client's.
        """
        if not partitions:
            return {}
        asked = dict.fromkeys(partitions, LATEST)
        offsets = partial(self._calls.admin.offsets, asked, "read_uncommitted")
        found = self._calls.ask(LIST_OFFSETS, offsets, timeout_s)
        return {
            tp: at.epoch
            for tp, at in found.items()
            if not isinstance(at, ClientFailure) and at.epoch is not None
        }

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the first offset with a record not older than a time in ms, else the log end.

        Partitions that do not exist are absent.
        """
        found = self._offsets(times, "read_committed")
        return found | self.log_ends([tp for tp, offset in found.items() if offset < 0])

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        simplify: Callable[[Mapping[str, str]], Iterable[NewTopic]] = lambda _rejected: (),
        made: set[str] | None = None,
    ) -> dict[str, Topic]:
        """Creates the topics that do not exist; all of *topics* are visible, the new ones led.

        Topics that exist stay as they are, whatever their partition count. If some are rejected,
        the others are created, and the error names all rejected ones.

        Args:
            topics: The topics.
            simplify: Called once with the topics that were rejected for a setting, and the reason
                of each; returns those to create instead.
            made: Gets the names of the topics that this call has created, and nobody else.
        """
        wanted = {topic.name: topic for topic in topics}
        results = self._create(wanted.values())
        if rejected := _rejected_settings(results):
            results |= self._create(simplify(rejected))
        created = self._calls.require(CREATE_TOPIC, results, {"TOPIC_ALREADY_EXISTS"})
        if made is not None:
            made.update(created)
        return self._await_made(dict.fromkeys(wanted, 1), created)

    def try_topics(self, topics: Iterable[NewTopic]) -> dict[str, str]:
        """Finds which of *topics* the cluster would not create with these settings, and why.

        Nothing is created.
        """
        return _rejected_settings(self._create(topics, validate_only=True))

    def refusals(self, topics: Iterable[NewTopic]) -> dict[str, CallError]:
        """Finds which of *topics* the cluster would not create with any settings, and why.

        Nothing is created. The cluster itself is asked: how many brokers it counts, which policies
        it has and what this user may do, only it knows.
        """
        results = self._create(topics, validate_only=True)
        return {
            name: self._calls.error_of(CREATE_TOPIC.of(name), failure)
            for name, failure in results.items()
            if failure
            and not failure.is_for_a_setting
            and failure.code not in RETRIABLE | {"TOPIC_ALREADY_EXISTS"}
        }

    def _create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, ClientFailure | None]:
        """Creates *topics*; returns the error of each that failed, None for the others."""
        results: dict[str, ClientFailure | None] = {}
        for some in requests(topics):
            answers = self._calls.results(
                Call("creating topics"),
                lambda keys, s, some=some: self._calls.admin.create(  # type: ignore[misc]
                    [some[key] for key in keys], s, validate_only=validate_only
                ),
                some,
            )
            results.update(answers)
        return results

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; one that does not exist counts as deleted."""
        results = self._calls.results(Call("deleting topics"), self._calls.admin.delete, [name])
        self._calls.require(DELETE_TOPIC, results, {NOT_FOUND})

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, Topic]:
        """Grows each topic to its count in *counts*; the partitions are visible, the new ones led.

        Topics that have as many partitions, or more, stay as they are.
        """
        results = self._calls.results(
            Call("adding partitions"),
            lambda keys, s: self._calls.admin.grow({key: counts[key] for key in keys}, s),
            counts,
        )
        grown = self._calls.require(GROW_TOPIC, results, {"INVALID_PARTITIONS"})
        return self._await_made(counts, grown)

    def _await_made(self, counts: Mapping[str, int], new: Iterable[str]) -> dict[str, Topic]:
        """Waits until topics are visible with so many partitions, and those of *new* ones led.

        A partition takes any sequence number of a producer that it does not know. Where its broker
        does not lead it yet when the first batch comes, but does when the second one comes, which
        was on its way, the first one is out of order for ever.
        """
        visible: dict[str, Topic] = {}

        def missing() -> list[str]:
            visible.update(self.describe(counts))
            return [
                name
                for name, count in counts.items()
                if name not in visible or visible[name].partitions < count
            ]

        self._calls.wait_for(missing, Call("waiting for created topics and partitions"))
        self.log_ends(
            [
                TopicPartition(name, number)
                for name in new
                for number in range(visible[name].partitions)
            ]
        )
        return visible

    def topic_config(self, topics: Iterable[str]) -> dict[str, Settings]:
        """Returns each existing topic's settings, by Kafka's names: ``max.message.bytes``."""
        send = partial(self._calls.admin.settings, "TOPIC")
        results = self._calls.results(Call("reading topic settings"), send, topics)
        return self._calls.require(READ_SETTINGS, results, {NOT_FOUND})

    def alter_topic_config(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, ClientFailure]:
        """Sets the settings of each topic, and removes those whose value is None.

        The changes of one topic are accepted or rejected together.

        Returns:
            The topics whose changes were rejected, and why.
        """
        results = self._calls.results(
            Call("changing topic settings"),
            lambda keys, s: self._calls.admin.alter({key: changes[key] for key in keys}, s),
            changes,
        )
        return {
            name: result for name, result in results.items() if isinstance(result, ClientFailure)
        }

    def producer_expiration_ms(self) -> int | None:
        """Returns for how many ms a broker remembers a producer, from its last timestamp on.

        It is the value of the first broker; None if this user may not see it.
        """
        told = self.broker_settings().get(PRODUCER_EXPIRATION)
        return int(told) if told else None

    def broker_settings(self) -> dict[str, str]:
        """Returns the settings of the first broker; none if this user may not see them."""
        first = str(min(self._list("listing the brokers").brokers))
        call = Call("reading settings of broker")
        send = partial(self._calls.admin.settings, "BROKER")
        results = self._calls.results(call, send, [first])
        found = self._calls.require(call, results, {"CLUSTER_AUTHORIZATION_FAILED"})
        return {key: own.value for key, own in found.get(first, {}).items() if own.value}

    def max_message_bytes(self, topics: Iterable[str]) -> dict[str, int]:
        """Returns the largest batch that each topic accepts, in bytes; missing ones are absent."""
        return {
            topic: int(settings["max.message.bytes"].value or 0)
            for topic, settings in self.topic_config(topics).items()
        }

    def _offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        def existing(partitions: Collection[TopicPartition]) -> set[TopicPartition]:
            topics = self.describe({tp.topic for tp in partitions})
            return {
                tp
                for tp in partitions
                if tp.topic in topics and tp.partition < topics[tp.topic].partitions
            }

        results = self._calls.results(
            LIST_OFFSETS,
            lambda keys, s: self._calls.admin.offsets(
                {key: times[key] for key in keys}, isolation, s
            ),
            times,
            existing,
        )
        found = self._calls.require(LIST_OFFSETS, results, {NOT_FOUND})
        return {tp: place.offset for tp, place in found.items()}


def _rejected_settings(results: Mapping[str, ClientFailure | None]) -> dict[str, str]:
    """Returns why topics were rejected that could be created with other settings, by name."""
    return {
        name: failure.text
        for name, failure in results.items()
        if failure and failure.is_for_a_setting
    }


# Ids alone do not tell whether two aliases are one cluster: ``kafka-storage format`` takes any id,
# and compose files and tutorials carry one. Two addresses lead to one cluster if the id is the
# same, and the brokers or the topics are.

PATIENCE_SECONDS: Final = 3.0
"""How long one address is asked for the id of its cluster."""


def foreign_addresses(cluster: Cluster, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the addresses that lead to other clusters than *cluster*, with the ids of these.

    A client may begin with any of its addresses, and one may be another cluster's by now. One that
    does not answer is not judged.

    Args:
        cluster: Which has all of the addresses.
        properties: Of its clients.

    Raises:
        ClusterError: The cluster does not answer.
    """
    servers = [one.strip() for one in properties.get("bootstrap.servers", "").split(",")]
    servers = [one for one in servers if one]
    if len(servers) < 2:  # noqa: PLR2004 - there is nothing to compare
        return {}
    own = cluster.cluster_id()

    def id_of(server: str) -> str:
        only = {**properties, "bootstrap.servers": server}
        with (
            suppress(ClusterError),
            Cluster(cluster.alias, only, patience_s=PATIENCE_SECONDS) as one,
        ):
            return one.cluster_id()
        return ""

    with ThreadPoolExecutor(len(servers), "addresses") as pool:
        ids = zip(servers, pool.map(id_of, servers), strict=True)
        return {server: its_id for server, its_id in ids if its_id not in {"", own}}


def have_one_id(source: Cluster, target: Cluster) -> bool:
    """Returns whether both clusters have the same id, which proves nothing on its own.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return source.cluster_id() == target.cluster_id()


def are_one(source: Cluster, target: Cluster) -> bool:
    """Returns whether both are the same cluster: with one id, and a broker or a topic in common.

    Brokers of one cluster have several addresses if it has several listeners; then a topic of
    both tells. Two clusters that show no common topic cannot be copied in a circle yet.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if not have_one_id(source, target):
        return False
    if source.brokers() & target.brokers():
        return True
    names = source.topic_names() & target.topic_names()
    ours = Rejections().call(source.describe, names)
    theirs = Rejections().call(target.describe, names)
    return any(ours[name].topic_id == theirs[name].topic_id for name in ours.keys() & theirs.keys())


def distinct_ids(clusters: Sequence[Cluster]) -> Mapping[str, str]:
    """Returns the ids of *clusters* by alias; an id that two share has the alias behind.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return {
        cluster.alias: f"{cluster.cluster_id()} of {cluster.alias}"
        if any(
            have_one_id(cluster, other) and not are_one(cluster, other)
            for other in clusters
            if other is not cluster
        )
        else cluster.cluster_id()
        for cluster in clusters
    }


@contextmanager
def open_clusters(
    flow: FlowConfig, patience_s: float | None = None
) -> Iterator[tuple[Cluster, Cluster]]:
    """Yields the source and the target of a *flow*, for the block."""
    with (
        Cluster(flow.source.alias, flow.source.admin, patience_s=patience_s) as source,
        Cluster(flow.target.alias, flow.target.admin, patience_s=patience_s) as target,
    ):
        yield source, target
