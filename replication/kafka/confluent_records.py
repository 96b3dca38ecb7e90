"""confluent-kafka's consumer behind `replication.kafka.api.Records`. It needs no JVM."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.api import ClientFailure, KafkaRecord
from replication.kafka.confluent_errors import ClientDiagnostics
from replication.model import Isolation, TopicPartition

READER: Final = "replication-reader"

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
    """The consumer; see `api.Records`. *properties* have Java's keys."""

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
        """Returns what the client has met, if it knows more than *failure*."""
        return self._diagnostics.cause(failure)

    def close(self) -> None:
        """Closes the connections."""
        self._consumer.close()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from their offsets."""
        if self._assigned == 1:
            self._learn_topics()
        self._assigned += 1
        with self._errors():
            self._consumer.assign([KafkaTopicPartition(*tp, at) for tp, at in starts.items()])

    def _learn_topics(self) -> None:
        """Asks for the leaders of all partitions, since one set of them follows another.

        librdkafka looks for those of a new set once a second only.
        """
        with suppress(KafkaException):  # then the read finds out by itself
            self._consumer.list_topics(timeout=TOPICS_SECONDS)

    def drop(self, tp: TopicPartition) -> None:
        """Reads *tp* no longer."""
        with self._errors():
            self._consumer.incremental_unassign([KafkaTopicPartition(*tp)])

    def bounds(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Returns the first offset, and the one after the last that may be read."""
        with self._errors():
            kafka_tp = KafkaTopicPartition(*tp)
            return self._consumer.get_watermark_offsets(kafka_tp, timeout=timeout_s)

    def poll(self, timeout_s: float) -> tuple[TopicPartition, KafkaRecord | None] | None:
        """Waits for the next record, or the end of a partition."""
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
