"""confluent-kafka's admin client behind `replication.kafka.api.Admin`. It needs no JVM."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from functools import partial
from itertools import islice, starmap
from threading import Event, Thread
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaException,
    Node,
    TopicCollection,
)
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConsumerGroupDescription,
    NewPartitions,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from confluent_kafka.admin import NewTopic as KafkaNewTopic

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.api import (
    EARLIEST,
    LATEST,
    NEWEST,
    ORIGINS,
    SILENT_LEADER,
    Answers,
    ClientError,
    ClientFailure,
    Kind,
    Listing,
    LogOffset,
    Settings,
)
from replication.kafka.confluent_errors import ClientDiagnostics, failure_in
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

POLL_SECONDS: Final = 0.1
MOST_OFFSETS: Final = 500
"""Partitions of a request: librdkafka's time for one grows with the square of their number."""

SPECS: Final = {
    LATEST: OffsetSpec.latest(),
    EARLIEST: OffsetSpec.earliest(),
    NEWEST: OffsetSpec.max_timestamp(),
}


class ConfluentTopics:
    """The admin client; see `api.Admin`. *properties* have Java's keys."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._diagnostics = ClientDiagnostics()
        self._over = Event()
        settings = {**librdkafka_properties(properties), **self._diagnostics.settings}
        with self._diagnostics.errors():
            self._admin = AdminClient(settings)

    def close(self) -> None:
        """Ends what waits; the connections end with the object."""
        self._over.set()

    def listing(self, timeout_s: float) -> Listing:
        """Lists brokers and topics."""
        return self._list(timeout_s)

    def brokers(self, timeout_s: float) -> Mapping[int, str]:
        """Asks for one topic as well, of a name that none can have, so that none is created."""
        return self._list(timeout_s, "?").brokers

    def _list(self, timeout_s: float, topic: str | None = None) -> Listing:
        """Lists in a thread of its own, so that rejected credentials end the wait for it."""
        future = Future[Any]()

        def run() -> None:
            try:
                future.set_result(self._admin.list_topics(topic, timeout_s))
            except Exception as failure:  # noqa: BLE001 - raised again in the caller's thread
                future.set_exception(failure)

        def send(**_: float) -> dict[str, Future[Any]]:
            Thread(target=run, name="kafka-call", daemon=True).start()
            return {"": future}

        found = self._ask(_listing, send, timeout_s)[""]
        if isinstance(found, ClientFailure):
            raise ClientError(found)
        return found

    def topics(self, names: Collection[str], timeout_s: float) -> Answers[Topic]:
        """Describes topics."""
        wanted = TopicCollection(list(names))
        return self._ask(_topic, self._admin.describe_topics, timeout_s, wanted)

    def rights(self, topics: Collection[str], timeout_s: float) -> Answers[frozenset[str] | None]:
        """Returns what this user may do with topics."""
        send = partial(self._admin.describe_topics, include_authorized_operations=True)
        return self._ask(_rights, send, timeout_s, TopicCollection(list(topics)))

    def members(self, groups: Collection[str], timeout_s: float) -> Answers[frozenset[str]]:
        """Returns the ids of the members of consumer groups."""
        return self._ask(_members, self._admin.describe_consumer_groups, timeout_s, list(groups))

    def offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, LogOffset | ClientFailure]:
        """Returns the offsets that *times* ask for."""
        level = IsolationLevel[isolation.upper()]
        specs = {
            KafkaTopicPartition(*tp): SPECS.get(time) or OffsetSpec.for_timestamp(time)
            for tp, time in times.items()
        }

        def send(request_timeout: float) -> dict[KafkaTopicPartition, Future[Any]]:
            futures: dict[KafkaTopicPartition, Future[Any]] = {}
            asked = iter(specs.items())
            while some := dict(islice(asked, MOST_OFFSETS)):
                futures |= self._admin.list_offsets(
                    some, isolation_level=level, request_timeout=request_timeout
                )
            return futures

        found = self._ask(_offset, send, timeout_s)
        return {TopicPartition(tp.topic, tp.partition): one for tp, one in found.items()}

    def ends(
        self, partitions: Collection[TopicPartition], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, int | ClientFailure]:
        """Returns where logs end."""
        found = self.offsets(dict.fromkeys(partitions, LATEST), isolation, timeout_s)
        return {
            tp: one if isinstance(one, ClientFailure) else one.offset for tp, one in found.items()
        }

    def create(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> Answers[None]:
        """Creates topics, or only asks whether the cluster would."""
        send = partial(self._admin.create_topics, validate_only=validate_only)
        wanted = [
            KafkaNewTopic(
                new.name, new.partitions, new.replication_factor, config=dict(new.configs)
            )
            for new in topics
        ]
        return self._ask(_nothing, send, timeout_s, wanted)

    def delete(self, topics: Collection[str], timeout_s: float) -> Answers[None]:
        """Deletes topics."""
        return self._ask(_nothing, self._admin.delete_topics, timeout_s, list(topics))

    def grow(self, counts: Mapping[str, int], timeout_s: float) -> Answers[None]:
        """Adds partitions to topics."""
        wanted = [NewPartitions(topic, count) for topic, count in counts.items()]
        return self._ask(_nothing, self._admin.create_partitions, timeout_s, wanted)

    def settings(self, kind: Kind, names: Collection[str], timeout_s: float) -> Answers[Settings]:
        """Reads all settings of topics, or of brokers."""
        wanted = [ConfigResource(ResourceType[kind], name) for name in names]
        found = self._ask(_settings_of, self._admin.describe_configs, timeout_s, wanted)
        return {resource.name: one for resource, one in found.items()}

    def alter(
        self, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
    ) -> Answers[None]:
        """Changes settings of topics."""
        wanted = [
            ConfigResource(
                ResourceType.TOPIC, topic, incremental_configs=list(starmap(_entry, own.items()))
            )
            for topic, own in changes.items()
        ]
        found = self._ask(_nothing, self._admin.incremental_alter_configs, timeout_s, wanted)
        return {resource.name: one for resource, one in found.items()}

    def _ask(
        self,
        read: Callable[[Any], ResultT],
        send: Callable[..., Mapping[KeyT, "Future[Any]"]],
        timeout_s: float,
        *wanted: object,
    ) -> dict[KeyT, ResultT | ClientFailure]:
        """Sends a request about what is *wanted*, waits for the answers, and reads them."""
        self._diagnostics.reset()
        with self._diagnostics.errors():
            futures = send(*wanted, request_timeout=timeout_s)
        while wait(futures.values(), POLL_SECONDS).not_done:
            self._admin.poll(0)  # runs the error callback, which may have the cause
            self._diagnostics.raise_if_hopeless()
            if self._over.is_set():
                raise ClientError(ClientFailure("_DESTROY", "the client was closed"))
        self._admin.poll(0)
        return {key: self._settled(future, read) for key, future in futures.items()}

    def _settled(
        self, future: "Future[Any]", read: Callable[[Any], ResultT]
    ) -> ResultT | ClientFailure:
        failure = future.exception()
        if failure is None:
            return read(future.result())
        if not isinstance(failure, KafkaException):
            raise failure
        return self._diagnostics.cause(failure_in(failure))


def _listing(metadata: Any) -> Listing:  # noqa: ANN401 - a class without a public name
    brokers = {number: f"{at.host}:{at.port}" for number, at in metadata.brokers.items()}
    return Listing(str(metadata.cluster_id), brokers, frozenset(metadata.topics))


def _topic(found: TopicDescription) -> Topic:
    leaders = tuple(_id(info.leader) for info in found.partitions)
    without = frozenset(partition for partition, leader in enumerate(leaders) if leader is None)
    in_sync = tuple((len(info.isr), len(info.replicas)) for info in found.partitions)
    return Topic(found.name, str(found.topic_id), len(leaders), without, leaders, in_sync)


def _id(broker: Node | None) -> int | None:
    return None if broker is None else broker.id


def _rights(found: TopicDescription) -> frozenset[str] | None:
    operations: Any = found.authorized_operations  # their stubs know no list
    return None if operations is None else frozenset(allowed.name for allowed in operations)


def _members(found: ConsumerGroupDescription) -> frozenset[str]:
    return frozenset(member.group_instance_id or member.member_id for member in found.members)


def _offset(found: Any) -> LogOffset | ClientFailure:  # noqa: ANN401 - the stubs know no attributes
    if found.offset == OFFSET_INVALID:  # what librdkafka gives where a leader is silent
        return ClientFailure(SILENT_LEADER, "its leader did not answer in time")
    return LogOffset(found.offset, found.timestamp, found.leader_epoch)


def _settings_of(found: Mapping[str, ConfigEntry]) -> Settings:
    return {
        key: TopicSetting(
            entry.value,
            ORIGINS.get(ConfigSource(entry.source).name, "unknown"),
            entry.is_read_only,
            entry.is_sensitive,
        )
        for key, entry in found.items()
    }


def _entry(key: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(key, value, incremental_operation=operation)


def _nothing(_: object) -> None:
    return None
