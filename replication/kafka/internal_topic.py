"""A topic that MirrorMaker 2's clients read: compacted, one partition, written from here.

Offset syncs, checkpoints, heartbeats. A handful of records a minute; the data never takes this way.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from replication.config.clients.java_keys import PRODUCER_ONLY
from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.calls import timeout_s
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import ClientDiagnostics, call_error, kafka_error
from replication.kafka.reader import Record, read_records
from replication.model import NewTopic, TopicPartition

log = logging.getLogger(__name__)

PARTITION: Final = 0
COMPACTED: Final = (("cleanup.policy", "compact"),)


class InternalTopic:
    """One such topic on *cluster*.

    Args:
        cluster: That holds it.
        name: Of the topic.
        producer: Client properties in Java's key space. What tunes the data's producer does not
            reach this one.
        consumer: The same, to read it back.
        replication_factor: Where it has to be created; -1 is the cluster's default.
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
        self._cluster, self._consumer = cluster, consumer
        self._factor = replication_factor
        self._properties = {
            key: value for key, value in producer.items() if key not in PRODUCER_ONLY
        }
        self._complaints = ClientDiagnostics()
        self._producer: Producer | None = None
        self._exists = False

    def create(self) -> None:
        """Creates it as MirrorMaker 2 does, unless it exists.

        Raises:
            ClusterError: The cluster refuses, or does not answer.
        """
        if not self._exists and not self._cluster.describe([self.name]):
            new = NewTopic(self.name, 1, self._factor, COMPACTED)
            self._cluster.create_topics([new])
        self._exists = True

    def send(self, key: bytes, value: bytes) -> None:
        """Sends one record and does not wait: for what another one follows anyway."""
        producer = self._producer = self._producer or self._new_producer()
        try:
            producer.produce(self.name, value, key, partition=PARTITION, on_delivery=self._complain)
        except BufferError:
            log.warning("topic %s: the cluster takes nothing, a record was left out", self.name)
        producer.poll(0)

    def _complain(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            log.warning("topic %s: a record was not written: %s", self.name, error.str())

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes keys and values in order; returns once all are acknowledged.

        Raises:
            ClusterError: One was not; those before it are written.
        """
        producer = self._producer = self._producer or self._new_producer()
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        self._complaints.forget()
        try:
            for key, value in records:
                producer.produce(self.name, value, key, partition=PARTITION, on_delivery=delivered)
                producer.poll(0)
            # the delivery timeout is the shorter one: every record gets its answer
            producer.flush(2 * timeout_s(self._properties))
        except KafkaException as failure:
            failures.append(kafka_error(failure))
        except BufferError:
            failures.append(KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001 - its only name
        if failures:
            code, reason = self._complaints.reason(failures[0])
            servers = self._properties.get("bootstrap.servers", "")
            raise call_error(
                self._cluster.alias, servers, f"write to topic {self.name}", code, reason
            )

    def records(self) -> list[Record]:
        """All records it holds, oldest first; none if it does not exist.

        Raises:
            ClusterError: It cannot be read.
        """
        tp = TopicPartition(self.name, PARTITION)
        end = self._cluster.log_ends([tp]).get(tp, 0)
        return read_records(self._consumer, tp, 0, end, "read_uncommitted") if end else []

    def _new_producer(self) -> Producer:
        settings: dict[str, Any] = {
            **librdkafka_properties(self._properties),
            "acks": "all",
            "enable.idempotence": True,  # no step back among the syncs of a partition
            "delivery.timeout.ms": int(timeout_s(self._properties) * 1000),
            "linger.ms": 0,
            "error_cb": self._complaints.hear,
            "logger": self._complaints,
        }
        return Producer(settings)
