"""A cluster through confluent-kafka: its topics, its records, a sender, its errors.

It needs no JVM. Properties that are given here have Java's keys.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import islice, starmap
from threading import Event, Thread
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from confluent_kafka import (
    OFFSET_INVALID,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Node,
    Producer,
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

from replication.config.client_keys import librdkafka_properties
from replication.kafka.api import (
    EARLIEST,
    LATEST,
    NEWEST,
    ORIGINS,
    READER,
    SILENT_LEADER,
    Answers,
    ClientError,
    ClientFailure,
    Done,
    KafkaRecord,
    Kind,
    Listing,
    LogOffset,
    Settings,
)
from replication.kafka.diagnosis import NOT_FOUND, UNREACHABLE
from replication.log import Log
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

log = Log(__name__)


KAFKA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "INVALID_MSG": "CORRUPT_MESSAGE",
        "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
        "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
        "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART": NOT_FOUND,
        "_NOENT": NOT_FOUND,  # no partition has a leader, as when their topic was deleted
        "_UNKNOWN_PARTITION": NOT_FOUND,
        "_UNKNOWN_TOPIC": NOT_FOUND,
    }
)
"""Kafka's own names of errors that librdkafka calls otherwise."""


class ClientDiagnostics:
    """The errors and log lines of one librdkafka client since `reset`.

    A call that fails ends in "timed out". The cause is in an error callback and in log lines only;
    with both an error can name the refused connection or the wrong password. Everything goes to the
    log at debug level, and nothing to stderr.
    """

    def __init__(self) -> None:
        self.settings: Final[Mapping[str, Any]] = {"error_cb": self._on_error, "logger": self}
        self._last_error: ClientFailure | None = None
        self._last_line: str | None = None

    def log(self, level: int, text: str, *args: object) -> None:
        """Takes a log line of librdkafka, which calls this method like a ``logging.Logger``'s."""
        line = text % args
        log.debug("client_log", text=line)
        if level >= logging.WARNING:
            self._last_line = line

    def _on_error(self, error: KafkaError) -> None:
        new = failure_of(error)
        log.debug("client_error", code=new.code, text=new.text)
        if new.code == "_ALL_BROKERS_DOWN":  # the error before it has the cause
            return
        last = self._last_error
        if last is None or last.code != new.code or len(last.text) <= len(new.text):
            self._last_error = new  # the longer text has the hint: "is this a PLAINTEXT listener?"

    def reset(self) -> None:
        """Forgets everything: a new call begins, which has causes of its own."""
        self._last_error = self._last_line = None

    def cause(self, failure: ClientFailure) -> ClientFailure:
        """Returns what was met instead of *failure*, if that only means "no answer"."""
        if failure.code not in UNREACHABLE:
            return failure
        if self._last_error:
            return self._last_error
        text = f"{failure.text} ({self._last_line})" if self._last_line else failure.text
        return ClientFailure(failure.code, text)

    def raise_if_hopeless(self) -> None:
        """Raises an error if waiting makes no sense, as the cluster rejected the credentials."""
        if self._last_error is not None and self._last_error.code == "_AUTHENTICATION":
            raise ClientError(self._last_error)

    @contextmanager
    def errors(self, poll: Callable[[float], object] = lambda _: None) -> Iterator[None]:
        """Turns an error of confluent-kafka into a `ClientError`; *poll* runs the callbacks."""
        try:
            yield
        except KafkaException as failure:
            poll(0)
            raise ClientError(self.cause(failure_in(failure))) from None


def failure_of(error: KafkaError) -> ClientFailure:
    return ClientFailure(KAFKA_NAMES.get(error.name(), error.name()), error.str())


def failure_in(failure: KafkaException) -> ClientFailure:
    """Returns the error inside an exception of confluent-kafka."""
    error = failure.args[0]
    if not isinstance(error, KafkaError):
        raise TypeError(f"a KafkaException without a KafkaError: {failure!r}")
    return failure_of(error)


TOPICS_SECONDS: Final = 4.0
"""How long a read waits to learn of all topics at once."""

MOST_BYTES: Final = 2**31 - 1
_OVERHEAD: Final = 512  # of a response, by which librdkafka wants more room than for its records

CONSUMER: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # the last offsets of a span may hold no record
    "queued.min.messages": 1_000,  # per partition; more is seldom needed
    "fetch.queue.backoff.ms": 10,  # by default, a partition with this many pauses for a second
    "fetch.wait.max.ms": 50,  # for the end of a partition that holds nothing more
    # also the most to which a batch may expand, 100 MB by default; for Java's clients there is none
    "receive.message.max.bytes": MOST_BYTES,
}


class ConfluentRecords:
    """The consumer; see `api.Records`."""

    def __init__(self, properties: Mapping[str, str], isolation: Isolation) -> None:
        self._diagnostics = ClientDiagnostics()
        settings = {
            "group.id": READER,  # required by librdkafka, never joined
            "check.crcs": "true",  # as in Java's clients, if nobody sets it
            **librdkafka_properties(properties),
            **CONSUMER,
            "isolation.level": isolation,
            **self._diagnostics.settings,
        }
        wanted = str(settings.get("fetch.max.bytes", ""))
        if wanted.isdecimal():
            settings["fetch.max.bytes"] = min(int(wanted), MOST_BYTES - _OVERHEAD)
        with self._diagnostics.errors():
            self._consumer = Consumer(settings)
        self._assigned = 0  # sets of partitions

    def _errors(self) -> AbstractContextManager[None]:
        """Turns errors into `ClientError`; librdkafka runs the error callback in `poll` only."""
        return self._diagnostics.errors(self._consumer.poll)

    def cause(self, failure: ClientFailure) -> ClientFailure:
        return self._diagnostics.cause(failure)

    def close(self) -> None:
        self._consumer.close()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        # librdkafka looks for the leaders of a new set of partitions once a second only, so since
        # one set follows another those of all topics are asked for
        if self._assigned == 1:
            with suppress(KafkaException):  # then the read finds out by itself
                self._consumer.list_topics(timeout=TOPICS_SECONDS)
        self._assigned += 1
        with self._errors():
            self._consumer.assign([KafkaTopicPartition(*tp, at) for tp, at in starts.items()])

    def drop(self, tp: TopicPartition) -> None:
        with self._errors():
            self._consumer.incremental_unassign([KafkaTopicPartition(*tp)])

    def bounds(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        with self._errors():
            kafka_tp = KafkaTopicPartition(*tp)
            return self._consumer.get_watermark_offsets(kafka_tp, timeout=timeout_s)

    def poll(self, timeout_s: float) -> tuple[TopicPartition, KafkaRecord | None] | None:
        with self._errors():
            message = self._consumer.poll(timeout_s)
            if message is None:
                return None
            tp = TopicPartition(cast("str", message.topic()), cast("int", message.partition()))
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(error)
            return tp, None if error else _record(message)


def _record(message: Message) -> KafkaRecord:
    kind, timestamp_ms = message.timestamp()
    return KafkaRecord(
        offset=cast("int", message.offset()),  # None is for records not yet sent
        timestamp_ms=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        is_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
        epoch=message.leader_epoch(),
    )


CONNECT_SECONDS: Final = 1.0


class ConfluentSender:
    """The producer; see `api.RecordSender`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._diagnostics = ClientDiagnostics()
        settings = {**librdkafka_properties(properties), **self._diagnostics.settings}
        with self._diagnostics.errors():
            self._producer = Producer(settings)

    def connect(self, topic: str) -> None:
        """Asks for *topic*: only then librdkafka asks for the id of an idempotent producer.

        It looks every half second whether it has a connection.
        """
        with suppress(KafkaException):  # whoever writes learns of it, with the reason
            self._producer.list_topics(topic, CONNECT_SECONDS)

    def send(self, to: TopicPartition, key: bytes, value: bytes | None, done: Done) -> None:
        """Sends a record, and calls those functions whose records' fates are known by now."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            kind, stamped_ms = message.timestamp()
            is_stamped = error is None and kind == TIMESTAMP_LOG_APPEND_TIME
            failure = None if error is None else self._diagnostics.cause(failure_of(error))
            done(failure, stamped_ms if is_stamped else -1)

        try:
            self._producer.produce(
                to.topic, value, key, partition=to.partition, on_delivery=delivered
            )
        except BufferError:
            done(ClientFailure("_QUEUE_FULL", "the producer's queue is full"), -1)
        except KafkaException as failure:
            done(failure_in(failure), -1)
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        self._diagnostics.reset()


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
    """The admin client; see `api.Admin`."""

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
        wanted = TopicCollection(list(names))
        return self._ask(_topic, self._admin.describe_topics, timeout_s, wanted)

    def rights(self, topics: Collection[str], timeout_s: float) -> Answers[frozenset[str] | None]:
        send = partial(self._admin.describe_topics, include_authorized_operations=True)
        return self._ask(_rights, send, timeout_s, TopicCollection(list(topics)))

    def members(self, groups: Collection[str], timeout_s: float) -> Answers[frozenset[str]]:
        return self._ask(_members, self._admin.describe_consumer_groups, timeout_s, list(groups))

    def offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, LogOffset | ClientFailure]:
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
        found = self.offsets(dict.fromkeys(partitions, LATEST), isolation, timeout_s)
        return {
            tp: one if isinstance(one, ClientFailure) else one.offset for tp, one in found.items()
        }

    def create(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> Answers[None]:
        send = partial(self._admin.create_topics, validate_only=validate_only)
        wanted = [
            KafkaNewTopic(
                new.name, new.partitions, new.replication_factor, config=dict(new.configs)
            )
            for new in topics
        ]
        return self._ask(_nothing, send, timeout_s, wanted)

    def delete(self, topics: Collection[str], timeout_s: float) -> Answers[None]:
        return self._ask(_nothing, self._admin.delete_topics, timeout_s, list(topics))

    def grow(self, counts: Mapping[str, int], timeout_s: float) -> Answers[None]:
        wanted = [NewPartitions(topic, count) for topic, count in counts.items()]
        return self._ask(_nothing, self._admin.create_partitions, timeout_s, wanted)

    def settings(self, kind: Kind, names: Collection[str], timeout_s: float) -> Answers[Settings]:
        wanted = [ConfigResource(ResourceType[kind], name) for name in names]
        found = self._ask(_settings_of, self._admin.describe_configs, timeout_s, wanted)
        return {resource.name: one for resource, one in found.items()}

    def alter(
        self, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
    ) -> Answers[None]:
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
    nodes: list[Node | None] = [info.leader for info in found.partitions]
    leaders = tuple(None if node is None else node.id for node in nodes)
    without = frozenset(partition for partition, leader in enumerate(leaders) if leader is None)
    in_sync = tuple((len(info.isr), len(info.replicas)) for info in found.partitions)
    return Topic(found.name, str(found.topic_id), len(leaders), without, leaders, in_sync)


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
