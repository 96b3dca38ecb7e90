"""The topics of one Kafka cluster: names, partitions, offsets, settings. Never reads a record.

Every call is one batched request. Retriable errors are retried; within the configured timeout the
call returns, or raises a `ClusterError` that names call, cluster, value and next step.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec

from replication.kafka.broker_settings import producer_expiration_ms
from replication.kafka.calls import Calls
from replication.kafka.clients import is_secured
from replication.kafka.creation import request_of, requests
from replication.kafka.diagnosis import NOT_FOUND
from replication.kafka.permissions import Operation, denied_topics
from replication.kafka.topic_settings import (
    REJECTED_SETTING,
    SettingRejection,
    alter_settings,
    describe_settings,
    read_setting,
)
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

if TYPE_CHECKING:
    from concurrent.futures import Future

NO_ANSWER: Final = KafkaError(KafkaError._TIMED_OUT, "its leader did not answer in time")  # noqa: SLF001
MOST_OFFSETS: Final = 500
"""Partitions of a request: librdkafka's time for one grows with the square of their number."""

ID_SECONDS: Final = 60.0
"""How long a cluster's id is taken for known: its address may come to mean another one."""

LIBRDKAFKA_IDS: Final = str.maketrans("-_", "+/")
"""librdkafka writes ids of topics in another alphabet than Java. State directories have those of
the client that a connection has by default, and both clients may read one."""


class Cluster(AbstractContextManager["Cluster"]):
    """One Kafka cluster, through confluent-kafka's AdminClient. Threads may share it.

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
        """Closes the connections. The object is of no use afterwards."""
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

    def topic_names(self) -> set[str]:
        """Returns the names of all topics this user may see, Kafka's own among them."""
        return set(self._list("listing topics").topics)

    def _list(self, call: str) -> Any:  # noqa: ANN401 - confluent-kafka's, or alike
        metadata = self._calls.call_blocking(call, self._calls.admin.list_topics)
        self._id = str(metadata.cluster_id)
        self._known_until = time.monotonic() + ID_SECONDS
        brokers = metadata.brokers.values()
        self._brokers = frozenset(f"{broker.host}:{broker.port}" for broker in brokers)
        return metadata

    def _topic_id(self, found: Any) -> str:  # noqa: ANN401 - confluent-kafka's, or alike
        """Returns the topic's id as the client writes it that this connection has by default."""
        given = str(found.topic_id)
        return given if self._is_secured else given.translate(LIBRDKAFKA_IDS)

    def describe(self, names: Iterable[str], *, listed: bool = False) -> dict[str, Topic]:
        """Describes the topics of *names* that exist.

        Args:
            names: The topics.
            listed: Whether `topic_names` gave *names*. Brokers learn of a new topic one after the
                other, so a topic that the answering broker does not know is asked for again while
                the cluster lists it.
        """
        results = self._calls.results(
            "describing topics",
            lambda keys, s: self._calls.admin.describe_topics(
                TopicCollection(list(keys)), request_timeout=s
            ),
            names,
            lambda name: listed and name in self.topic_names(),
        )
        return {
            name: Topic(
                name,
                self._topic_id(found),
                len(found.partitions),
                frozenset(info.id for info in found.partitions if info.leader is None),
                tuple(info.leader and info.leader.id for info in found.partitions),
            )
            for name, found in self._calls.require("describing topic", results, NOT_FOUND).items()
        }

    def denied(self, operation: Operation, topics: Iterable[str]) -> dict[str, str]:
        """Returns why this user may not read from, or write to, those *topics* where it may not.

        Topics that do not exist are absent.
        """
        return denied_topics(self._calls, operation, topics)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition; partitions that do not exist are absent."""
        specs = dict.fromkeys(partitions, OffsetSpec.earliest())
        return self._offsets(specs, "read_uncommitted")

    def log_ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """Returns the next offset to be written; partitions that do not exist are absent.

        With ``read_committed`` it is the last stable offset, where the first open transaction
        starts.
        """
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.latest()), isolation)

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the first offset with a record not older than a time in ms, else the log end.

        Partitions that do not exist are absent.
        """
        specs = {tp: OffsetSpec.for_timestamp(time_ms) for tp, time_ms in times.items()}
        found = self._offsets(specs, "read_committed")
        return found | self.log_ends([tp for tp, offset in found.items() if offset < 0])

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        simplify: Callable[[Mapping[str, str]], Iterable[NewTopic]] = lambda _rejected: (),
    ) -> dict[str, Topic]:
        """Creates the topics that do not exist, and waits until all of *topics* are visible.

        Topics that exist stay as they are, whatever their partition count. If some are rejected,
        the others are created, and the error names all rejected ones.

        Args:
            topics: The topics.
            simplify: Called once with the topics that were rejected for a setting, and the reason
                of each; returns those to create instead.
        """
        wanted = {topic.name: topic for topic in topics}
        results = self._create(wanted.values())
        if rejected := _rejected_settings(results):
            results |= self._create(simplify(rejected))
        self._calls.require("creating topic", results, {"TOPIC_ALREADY_EXISTS"})
        return self.wait_until_visible(dict.fromkeys(wanted, 1))

    def try_topics(self, topics: Iterable[NewTopic]) -> dict[str, str]:
        """Finds which of *topics* the cluster would not create with these settings, and why.

        Nothing is created.
        """
        return _rejected_settings(self._create(topics, validate_only=True))

    def _create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, "KafkaError | None"]:
        """Creates *topics*; returns the error of each that failed, None for the others."""
        results: dict[str, KafkaError | None] = {}
        for some in requests(topics):
            answers = self._calls.results(
                "creating topics",
                lambda keys, s, some=some: self._calls.admin.create_topics(  # type: ignore[misc]
                    [request_of(some[key]) for key in keys],
                    request_timeout=s,
                    validate_only=validate_only,
                ),
                some,
            )
            results.update(answers)
        return results

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; one that does not exist counts as deleted."""
        results = self._calls.results(
            "deleting topics",
            lambda keys, s: self._calls.admin.delete_topics(list(keys), request_timeout=s),
            [name],
        )
        self._calls.require("deleting topic", results, NOT_FOUND)

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, Topic]:
        """Grows each topic to its count in *counts*, and waits until the partitions are visible.

        Topics that have as many partitions, or more, stay as they are.
        """
        results = self._calls.results(
            "adding partitions",
            lambda keys, s: self._calls.admin.create_partitions(
                [NewPartitions(key, counts[key]) for key in keys], request_timeout=s
            ),
            counts,
        )
        self._calls.require("adding partitions to topic", results, {"INVALID_PARTITIONS"})
        return self.wait_until_visible(counts)

    def wait_until_visible(self, counts: Mapping[str, int]) -> dict[str, Topic]:
        """Waits until each topic of *counts* is visible with at least that many partitions.

        Raises:
            CallError: Some are still not visible when the timeout has passed.
        """
        visible: dict[str, Topic] = {}

        def missing() -> list[str]:
            visible.update(self.describe(counts))
            return [
                name
                for name, count in counts.items()
                if name not in visible or visible[name].partitions < count
            ]

        self._calls.wait_for(missing, "waiting for created topics and partitions")
        return visible

    def topic_config(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """Returns each existing topic's settings, by Kafka's names: ``max.message.bytes``."""
        results = self._calls.results(
            "reading topic settings",
            lambda keys, s: describe_settings(self._calls.admin, keys, s),
            topics,
        )
        return {
            name: {key: read_setting(entry) for key, entry in settings.items()}
            for name, settings in self._calls.require(
                "reading settings of topic", results, NOT_FOUND
            ).items()
        }

    def alter_topic_config(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, SettingRejection]:
        """Sets the settings of each topic, and removes those whose value is None.

        The changes of one topic are accepted or rejected together.

        Returns:
            The topics whose changes were rejected, and why.
        """
        results = self._calls.results(
            "changing topic settings",
            lambda keys, s: alter_settings(
                self._calls.admin, {key: changes[key] for key in keys}, s
            ),
            changes,
        )
        return {
            name: SettingRejection(result.name(), result.str())
            for name, result in results.items()
            if isinstance(result, KafkaError)
        }

    def producer_expiration_ms(self) -> int | None:
        """Returns how long a broker remembers a producer; None if this user may not see it."""
        return producer_expiration_ms(self._calls)

    def max_message_bytes(self, topics: Iterable[str]) -> dict[str, int]:
        """Returns the largest batch that each topic accepts, in bytes; missing ones are absent."""
        key = "max.message.bytes"
        return {
            topic: int(settings[key].value or 0)
            for topic, settings in self.topic_config(topics).items()
        }

    def _offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        level = IsolationLevel[isolation.upper()]

        def send(keys: Collection[TopicPartition], s: float) -> dict[TopicPartition, "Future[Any]"]:
            futures: dict[TopicPartition, Future[Any]] = {}
            asked = iter(keys)
            while some := list(islice(asked, MOST_OFFSETS)):
                answers = self._calls.admin.list_offsets(
                    {KafkaTopicPartition(*key): specs[key] for key in some},
                    isolation_level=level,
                    request_timeout=s,
                )
                futures |= {TopicPartition(tp.topic, tp.partition): f for tp, f in answers.items()}
            return futures

        results = self._calls.results("listing offsets of", send, specs, self._exists)
        for tp, found in results.items():
            # what librdkafka gives where a leader has not answered in time
            if not isinstance(found, KafkaError) and found.offset == OFFSET_INVALID:
                results[tp] = NO_ANSWER
        return {
            tp: found.offset
            for tp, found in self._calls.require("listing offsets of", results, NOT_FOUND).items()
        }

    def _exists(self, partition: TopicPartition) -> bool:
        """Returns whether *partition* is in the cluster's metadata."""
        topic = self.describe([partition.topic]).get(partition.topic)
        return topic is not None and partition.partition < topic.partitions


def _rejected_settings(results: Mapping[str, KafkaError | None]) -> dict[str, str]:
    """Returns why topics were rejected that could be created with other settings, by name."""
    return {
        name: result.str()
        for name, result in results.items()
        if result is not None and result.name() in REJECTED_SETTING
    }
