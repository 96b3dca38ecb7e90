"""What is produced while faults happen: topics of three kinds, each with a paced producer."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from confluent_kafka import KafkaException

from replication.demo.workload import (
    PacedProducer,
    ProducedRecord,
    create_compacted_topic,
    create_topic,
    plain_records,
    sending,
)
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from tests.support.topics import now_ms

PATTERN = "soak-.*"
PLAIN, TRANSACTIONAL, COMPACTED = "soak-plain", "soak-transactional", "soak-compacted"
RECORD_BYTES = 200
BURST_RECORDS = 20_000
ANSWER_MS = "300000"
"""How long a cluster may be silent for the soak's own clients: a broker may be starved."""


@dataclass(frozen=True, slots=True)
class SoakTopic:
    """A topic and what is sent to it.

    Args:
        name: The topic.
        partitions: Their number; records go to each in turn.
        per_second: Records.
        is_transactional: Whether the producer sends transactions and aborts every fifth.
        has_gaps: Whether its offsets have gaps.
    """

    name: str
    partitions: int
    per_second: float
    is_transactional: bool = False
    has_gaps: bool = False


FIRST = (
    SoakTopic(PLAIN, 3, 240),
    SoakTopic(TRANSACTIONAL, 2, 100, is_transactional=True, has_gaps=True),
    SoakTopic(COMPACTED, 2, 40, has_gaps=True),
)


class Load:
    """The topics on the source and their producers. A producer that fails is started again.

    What a producer could not send does not matter: the source's log is what must be copied.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._cluster = patient_cluster("A", bootstrap)
        self.topics: dict[str, SoakTopic] = {}
        self._records: dict[str, Iterator[ProducedRecord]] = {}
        self._producers: dict[str, PacedProducer] = {}
        self.restarts = 0

    @property
    def partitions(self) -> int:
        """Of all topics."""
        return sum(topic.partitions for topic in self.topics.values())

    def fill(self) -> None:
        """Creates the first topics and starts to produce."""
        for topic in FIRST:
            if topic.name == COMPACTED:
                create_compacted_topic(
                    self._bootstrap, topic.name, topic.partitions, now_ms=now_ms()
                )
            else:
                create_topic(self._bootstrap, topic.name, topic.partitions)
            self._produce(topic)

    def add(self, topic: SoakTopic) -> None:
        """Creates a topic and starts to produce."""
        create_topic(self._bootstrap, topic.name, topic.partitions)
        self._produce(topic)

    def grow(self, name: str) -> None:
        """Adds a partition to a topic and produces to it, too."""
        topic = replace(self.topics[name], partitions=self.topics[name].partitions + 1)
        self._cluster.create_partitions({name: topic.partitions})
        self._end(name)
        self._produce(topic)

    def burst(self) -> None:
        """Sends many records to the plain topic at once, so that a fault falls into a copy."""
        records = _records(self.topics[PLAIN].partitions)
        with suppress(ClusterError), sending(self._bootstrap) as sender:
            sender.send_all(PLAIN, islice(records, BURST_RECORDS))

    def attend(self) -> None:
        """Starts the producers again that have failed, as in a long outage."""
        for name, producer in list(self._producers.items()):
            if not producer.is_alive():
                self.restarts += 1
                self._end(name)
                self._start(self.topics[name])

    def finish(self) -> None:
        """Ends all producers."""
        for name in list(self._producers):
            self._end(name)

    def ends(self, topics: list[str] | None = None) -> dict[TopicPartition, int]:
        """The log ends of *topics* on the source; by default of those without gaps."""
        names = topics or [topic.name for topic in self.topics.values() if not topic.has_gaps]
        return self._cluster.log_ends(
            TopicPartition(name, number)
            for name in names
            for number in range(self.topics[name].partitions)
        )

    def _produce(self, topic: SoakTopic) -> None:
        self.topics[topic.name] = topic
        self._records[topic.name] = _records(topic.partitions)
        self._start(topic)

    def _start(self, topic: SoakTopic) -> None:
        producer = PacedProducer(
            self._bootstrap,
            {topic.name: self._records[topic.name]},
            records_per_second=topic.per_second,
            transactional=topic.is_transactional,
        )
        self._producers[topic.name] = producer
        producer.start()

    def _end(self, name: str) -> None:
        with suppress(ClusterError, KafkaException):
            self._producers.pop(name).finish()


def patient_cluster(alias: str, bootstrap: str) -> Cluster:
    """Returns a client that waits for a cluster as long as a fault and a full machine may last."""
    return Cluster(alias, {"bootstrap.servers": bootstrap, "default.api.timeout.ms": ANSWER_MS})


def _records(partitions: int) -> Iterator[ProducedRecord]:
    """Endless records that differ from those of every other call: by their timestamps."""
    return plain_records(partitions, size_bytes=RECORD_BYTES, now_ms=now_ms())
