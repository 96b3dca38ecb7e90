"""A compacted topic of one partition that MirrorMaker 2's clients read.

Offset syncs, checkpoints and heartbeats: some records a minute. Replicated records are never
written this way.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from replication.config.clients.java_keys import PRODUCER_ONLY
from replication.kafka.calls import timeout_s
from replication.kafka.clients import open_producer
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError, ClientDiagnostics, call_error, kafka_error
from replication.kafka.reach import bound_s, reach_of
from replication.kafka.reader import KafkaRecord, read_records
from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.mm2.internal_topics import find_faults
from replication.model import NewTopic, TopicPartition

log = Log(__name__)

PARTITION: Final = 0
CONNECT_SECONDS: Final = 1.0
TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""Of one record, which is rejected whatever the others are."""
COMPACTED: Final = (("cleanup.policy", "compact"),)


class InternalTopic:
    """One such topic.

    Args:
        cluster: The cluster that holds the topic.
        name: The topic.
        producer: Client properties in Java's key space; those that tune throughput are ignored.
        consumer: Client properties in Java's key space, for reading.
        replication_factor: For creating the topic; -1 is the cluster's default.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        producer: Mapping[str, str],
        consumer: Mapping[str, str],
        replication_factor: int,
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._consumer = consumer
        self._factor = replication_factor
        self._properties = {
            key: value for key, value in producer.items() if key not in PRODUCER_ONLY
        }
        self._diagnostics = ClientDiagnostics()
        self._producer: Any = None
        self._exists = False
        self._dropped = 0

    def create(self) -> None:
        """Creates the topic as MirrorMaker 2 does, unless it exists.

        Logs what is wrong with a topic that exists.

        Raises:
            ClusterError: The cluster does not answer, or rejects the topic.
        """
        if self._exists:
            return
        if self._cluster.describe([self.name]):
            for fault in faults_of(self._cluster, [self.name]):
                log.warning("internal_topic_unfit", topic=self.name, text=fault)
        else:
            new = NewTopic(self.name, 1, self._factor, COMPACTED)
            self._cluster.create_topics([new])
        self._exists = True

    def send(self, key: bytes, value: bytes) -> None:
        """Sends one record without waiting for its acknowledgement.

        Raises:
            ClusterError: No client can be created, or it rejects the record.
        """
        producer = self._producer = self._producer or self._new_producer()
        try:
            producer.produce(self.name, value, key, partition=PARTITION, on_delivery=self._note)
        except BufferError:
            self._drop("the producer's queue is full")
        except KafkaException as failure:
            raise self._error(kafka_error(failure)) from None
        producer.poll(0)

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._drop(error.str())
        elif self._dropped:
            where = {"cluster": self._cluster.alias, "topic": self.name}
            log.info("records_written_again", **where, dropped=self._dropped)
            self._dropped = 0

    def _drop(self, text: str) -> None:
        """Logs the first record that is dropped; how many were is logged when one is written."""
        if not self._dropped:
            where = {"cluster": self._cluster.alias, "topic": self.name}
            log.warning("record_dropped", **where, text=text)
        self._dropped += 1

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes keys and values in order, and returns when all are acknowledged.

        Raises:
            ClusterError: A record was not acknowledged; the others may be written.
        """
        for error in self.write_each(list(records)).values():
            raise error

    def write_each(self, records: Sequence[tuple[bytes, bytes]]) -> dict[int, CallError]:
        """Writes keys and values in order, and returns when each is acknowledged or rejected.

        Returns:
            Why records were rejected for their size, by their places in *records*.

        Raises:
            ClusterError: A record was not acknowledged for another reason.
        """
        failures = self._send(records)
        sizes = {at for at, error in failures.items() if error.name() in TOO_LARGE}
        if len(sizes) > 1:  # a batch is rejected as a whole
            for at in sizes:
                failures.pop(at)
                if alone := self._send([records[at]]):
                    failures[at] = alone[0]
        errors = {at: self._error(error) for at, error in failures.items()}
        for error in errors.values():
            if error.code not in TOO_LARGE:
                raise error
        return errors

    def _send(self, records: Sequence[tuple[bytes, bytes]]) -> dict[int, KafkaError]:
        """Sends *records*; returns why some were not acknowledged, by their places."""
        if silence := reach_of(self._properties).await_answer(bound_s(self._properties)):
            raise self._failure(silence.code, silence.text)
        producer = self._producer = self._producer or self._connected_producer()
        failures: dict[int, KafkaError] = {}

        def delivered(at: int, error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures[at] = error

        self._diagnostics.reset()
        for at, (key, value) in enumerate(records):
            try:
                producer.produce(
                    self.name, value, key, partition=PARTITION, on_delivery=partial(delivered, at)
                )
                producer.poll(0)
            except KafkaException as failure:  # noqa: PERF203 - the other records still count
                failures[at] = kafka_error(failure)
            except BufferError:
                failures[at] = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001 - its only name
        # longer than the delivery timeout, so that every record is delivered or fails
        producer.flush(2 * timeout_s(self._properties))
        return failures

    def records(self) -> list[KafkaRecord]:
        """Returns all records of the topic, oldest first; none if it does not exist.

        Raises:
            ClusterError: The topic cannot be read.
        """
        tp = TopicPartition(self.name, PARTITION)
        end = self._cluster.log_ends([tp]).get(tp, 0)
        return read_records(self._consumer, tp, 0, end, "read_uncommitted") if end else []

    def _new_producer(self) -> Any:  # noqa: ANN401 - one of two classes with the same methods
        try:
            return open_producer(self._properties, timeout_s(self._properties), self._diagnostics)
        except KafkaException as failure:
            raise self._error(kafka_error(failure)) from None

    def _connected_producer(self) -> Any:  # noqa: ANN401 - as `_new_producer`
        """Returns a producer that has a connection, if the cluster answers at once.

        librdkafka asks for the id of an idempotent producer only then, and looks every half second.
        """
        producer = self._new_producer()
        if isinstance(producer, Producer):
            with suppress(KafkaException):  # whoever writes learns of it, with the reason
                producer.list_topics(self.name, CONNECT_SECONDS)
        return producer

    def _error(self, error: KafkaError) -> CallError:
        return self._failure(*self._diagnostics.reason(error))

    def _failure(self, code: str, reason: str) -> CallError:
        call = f"writing to topic {self.name}"
        return call_error(self._cluster.alias, self._properties, call, code, reason)


def faults_of(
    cluster: Cluster, names: Iterable[str], of_any_size: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns what is wrong with the existing internal topics of *names*, one line each.

    Args:
        cluster: Holds them.
        names: The topics.
        of_any_size: Those that may have any number of partitions.

    Raises:
        ClusterError: The cluster does not answer.
    """
    topics = cluster.describe(names)
    settings = Rejections().call(cluster.topic_config, topics)  # DESCRIBE_CONFIGS may be missing
    policies = {name: own["cleanup.policy"].value for name, own in settings.items()}
    return tuple(
        fault
        for name, topic in sorted(topics.items())
        for fault in find_faults(
            name,
            1 if name in of_any_size else topic.partitions,
            policies.get(name),
            cluster.servers,
        )
    )
