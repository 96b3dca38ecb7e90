"""A compacted topic of one partition that MirrorMaker 2's clients read.

Offset syncs, checkpoints and heartbeats: some records a minute. Replicated records are never
written this way.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from replication.config.client_keys import PRODUCER_ONLY
from replication.kafka.api import WRITE_TOPIC, ClientError, ClientFailure, KafkaRecord, RecordSender
from replication.kafka.calls import open_sender, timeout_s
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.diagnosis import TOO_LARGE, CallError, call_error
from replication.kafka.reach import bound_s, reach_of
from replication.kafka.reader import read_records
from replication.log import Log
from replication.mm2.policy import find_faults, find_letter_faults
from replication.model import NewTopic, TopicPartition

log = Log(__name__)

PARTITION: Final = 0
UNANSWERED: Final = ClientFailure("_TIMED_OUT", "no answer; it may be written")
"""What became of a record that the client could neither deliver nor give up in all its time."""
COMPACTED: Final = (("cleanup.policy", "compact"),)
LETTER_SETTINGS: Final = (
    ("cleanup.policy", "delete"),
    ("max.message.bytes", "100000000"),  # below socket.request.max.bytes, Kafka's limit of all
    ("retention.ms", "-1"),
)
"""Of a topic of dead letters: a letter stays until somebody deletes it."""


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
        self._at = TopicPartition(name, PARTITION)
        self._sender: RecordSender | None = None
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
            ClusterError: No client can be created.
        """
        self._opened().send(self._at, key, value, self._note)

    def _note(self, failure: ClientFailure | None, _stamped_ms: int) -> None:
        # the first record that is dropped is logged, and how many were when one is written again
        where = {"cluster": self._cluster.alias, "topic": self.name}
        if failure is not None:
            if not self._dropped:
                log.warning("record_dropped", **where, text=failure.text)
            self._dropped += 1
        elif self._dropped:
            log.info("records_written_again", **where, dropped=self._dropped)
            self._dropped = 0

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes keys and values in order, and returns when all are acknowledged.

        Raises:
            ClusterError: A record was not acknowledged; the others may be written.
        """
        for error in self.write_each(list(records)).values():
            raise error

    def disconnect(self) -> None:
        """Closes the producer that `write` has opened; the next record opens another one.

        One that waits wakes up several times a second, in threads of its own.
        """
        self._sender = None

    def write_each(self, records: Sequence[tuple[bytes, bytes]]) -> dict[int, CallError]:
        """Writes keys and values in order, and returns when each is acknowledged or rejected.

        Returns:
            Why records were rejected for their size, by their places in *records*.

        Raises:
            ClusterError: A record was not acknowledged for another reason.
        """
        failures = self._send(records)
        sizes = {at for at, failure in failures.items() if failure.code in TOO_LARGE}
        if len(sizes) > 1:  # a batch is rejected as a whole
            for at in sizes:
                failures.pop(at)
                if alone := self._send([records[at]]):
                    failures[at] = alone[0]
        errors = {at: self._failed(failure) for at, failure in failures.items()}
        for error in errors.values():
            if error.code not in TOO_LARGE:
                raise error
        return errors

    def _send(self, records: Sequence[tuple[bytes, bytes]]) -> dict[int, ClientFailure]:
        """Sends *records*; returns why some were not acknowledged, by their places."""
        if silence := reach_of(self._properties).await_answer(bound_s(self._properties)):
            raise self._failed(silence)
        if self._sender is None:
            self._opened().connect(self.name)
        fates: dict[int, ClientFailure | None] = dict.fromkeys(range(len(records)), UNANSWERED)

        def done(at: int, failure: ClientFailure | None, _stamped_ms: int) -> None:
            fates[at] = failure

        sender = self._opened()
        for at, (key, value) in enumerate(records):
            sender.send(self._at, key, value, partial(done, at))
        # longer than the delivery timeout, so that every record is delivered or fails
        sender.flush(2 * timeout_s(self._properties))
        return {at: fate for at, fate in fates.items() if fate is not None}

    def records(self) -> list[KafkaRecord]:
        """Returns all records of the topic, oldest first; none if it does not exist.

        Raises:
            ClusterError: The topic cannot be read.
        """
        end = self._cluster.log_ends([self._at]).get(self._at, 0)
        return read_records(self._consumer, self._at, 0, end, "read_uncommitted") if end else []

    def _opened(self) -> RecordSender:
        if self._sender is None:
            try:
                self._sender = open_sender(self._properties, timeout_s(self._properties))
            except ClientError as error:
                raise self._failed(error.failure) from None
        return self._sender

    def _failed(self, failure: ClientFailure) -> CallError:
        call = WRITE_TOPIC.of(self.name)
        return call_error(self._cluster.alias, self._properties, call, failure)


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
    policies = _policies(cluster, topics)
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


def letter_faults_of(cluster: Cluster, names: Collection[str]) -> tuple[str, ...]:
    """Returns what is wrong with existing topics of dead letters, one line each.

    Raises:
        ClusterError: The cluster does not answer.
    """
    return tuple(
        fault
        for name, policy in sorted(_policies(cluster, names).items())
        for fault in find_letter_faults(name, policy, cluster.servers)
    )


def _policies(cluster: Cluster, names: Collection[str]) -> dict[str, str | None]:
    settings = Rejections().call(cluster.topic_config, names)  # DESCRIBE_CONFIGS may be missing
    return {name: own["cleanup.policy"].value for name, own in settings.items()}
