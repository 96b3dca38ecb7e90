"""confluent-kafka's producer behind `replication.kafka.api.RecordSender`. It needs no JVM."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.api import ClientFailure, Done
from replication.kafka.confluent_errors import ClientDiagnostics, failure_in, failure_of
from replication.model import TopicPartition

CONNECT_SECONDS: Final = 1.0


class ConfluentSender:
    """The producer; see `api.RecordSender`. *properties* have Java's keys."""

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

    def send(
        self,
        to: TopicPartition,
        key: bytes,
        value: bytes | None,
        done: Done,
    ) -> None:
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
        """Waits until all records are acknowledged or have failed."""
        self._producer.flush(timeout_s)
        self._diagnostics.reset()
