"""confluent-kafka's producer behind `replication.kafka.api.RecordSender`. It needs no JVM."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.api import ClientFailure
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
        done: Callable[[ClientFailure | None], None],
    ) -> None:
        """Sends a record, and calls those functions whose records' fates are known by now."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            done(None if error is None else self._diagnostics.cause(failure_of(error)))

        try:
            self._producer.produce(
                to.topic, value, key, partition=to.partition, on_delivery=delivered
            )
        except BufferError:
            done(ClientFailure("_QUEUE_FULL", "the producer's queue is full"))
        except KafkaException as failure:
            done(failure_in(failure))
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Waits until all records are acknowledged or have failed."""
        self._producer.flush(timeout_s)
        self._diagnostics.reset()
