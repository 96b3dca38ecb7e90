"""Reads the status topic of a flow: from the beginning to its end, and then what comes.

It is in no group and commits nothing.
"""

import time
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.config.tree import FlowConfig
from replication.errors import NoAnswerError
from replication.figures.words import Words
from replication.kafka.clients import open_consumer
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError, ClientDiagnostics, call_error, kafka_error

PATIENCE_SECONDS: Final = 3.0
READ_SECONDS: Final = 10.0
"""How long the way to the topic's end may take."""
POLL_SECONDS: Final = 0.1
END: Final = "_PARTITION_EOF"


class StatusReader(AbstractContextManager["StatusReader"]):
    """One consumer of the topic; for one thread. It is closed with the block.

    Args:
        config: The flow.
    """

    def __init__(self, config: FlowConfig) -> None:
        self.words = Words(config.flow)
        self.name = config.status.storage_topic
        self._target = config.target
        self._diagnostics = ClientDiagnostics()
        self._consumer: Any = None
        self._unread = set[int]()

    def __exit__(self, *_: object) -> None:
        """Closes the consumer."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def catch_up(self) -> None:
        """Reads to the end that the topic has now.

        Raises:
            NoAnswerError: There is no such topic.
            ClusterError: The cluster does not answer, or denies access.
        """
        if self._consumer is None:
            self._open()
        deadline = time.monotonic() + READ_SECONDS
        while self._unread:
            self._poll()
            if time.monotonic() > deadline:
                raise self._error("_TIMED_OUT", f"its end was not reached in {READ_SECONDS:g} s")

    def follow(self, seconds: float) -> None:
        """Takes what comes within *seconds*.

        Raises:
            ClusterError: The cluster denies access.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._poll()

    def _open(self) -> None:
        alias, properties = self._target.alias, self._target.admin
        with Cluster(alias, properties, patience_s=PATIENCE_SECONDS) as cluster:
            topic = cluster.describe([self.name]).get(self.name)
        if topic is None:
            raise NoAnswerError(f"topic {self.name} is not on cluster {alias}")
        try:
            self._consumer = open_consumer(
                self._target.consumer, "read_uncommitted", self._diagnostics
            )
            partitions = range(topic.partitions)
            self._unread = set(partitions)
            self._consumer.assign(
                [KafkaTopicPartition(self.name, one, 0) for one in partitions]  # or the earliest
            )
        except KafkaException as failure:
            raise self._failure(failure) from None

    def _poll(self) -> None:
        try:
            message = self._consumer.poll(POLL_SECONDS)
        except KafkaException as failure:
            raise self._failure(failure) from None
        if message is None:
            return
        if (error := message.error()) is None:
            _, at_ms = message.timestamp()
            self.words.take(message.key(), message.value(), at_ms / 1000)
        elif error.name() == END:
            self._unread.discard(message.partition())
        else:
            raise self._failure(KafkaException(error))

    def _failure(self, failure: KafkaException) -> CallError:
        return self._error(*self._diagnostics.reason(kafka_error(failure)))

    def _error(self, code: str, reason: str) -> CallError:
        call = f"reading topic {self.name}"
        return call_error(self._target.alias, self._target.consumer, call, code, reason)
