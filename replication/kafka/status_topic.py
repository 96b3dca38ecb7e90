"""The status topic of a flow on its target: written by the flow's owner, read by whoever asks.

A record is small and is written every few seconds. Nobody waits for one: what cannot be written
is said once, and the next one is newer anyway.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock
from typing import Final

from replication.config.clients.java_keys import PRODUCER_ONLY
from replication.config.tree import ClusterConfig, FlowConfig
from replication.errors import NoAnswerError
from replication.figures.lag import Skew, SkewMeter, worst
from replication.figures.status_store import StatusStore
from replication.kafka.api import (
    READ_TOPIC,
    WRITE_TOPIC,
    ClientError,
    ClientFailure,
    Records,
    RecordSender,
)
from replication.kafka.clients import open_records, open_sender
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError, call_error
from replication.kafka.internal_topic import faults_of
from replication.log import Log
from replication.mm2.status_records import partition_of
from replication.model import NewTopic, Part, Topic, TopicPartition

log = Log(__name__)

READ_SECONDS: Final = 10.0
"""How long the way to the topic's end may take."""
POLL_SECONDS: Final = 0.1


class StatusReader(AbstractContextManager["StatusReader"]):
    """One consumer of the topic: from the beginning to its end, and then what comes.

    For one thread; it is in no group, commits nothing, and is closed with the block.

    Args:
        config: The flow.
    """

    def __init__(self, config: FlowConfig) -> None:
        self.store = StatusStore(config.flow)
        self.name = config.status.storage_topic
        self._target = config.target
        self._records: Records | None = None
        self._unread = set[int]()
        self._is_named = False

    def __exit__(self, *_: object) -> None:
        if self._records is not None:
            self._records.close()
        self._records = None

    def catch_up(self) -> None:
        """Reads to the end that the topic has now.

        Raises:
            NoAnswerError: There is no such topic.
            ClusterError: The cluster does not answer, or denies access.
        """
        if self._records is None:
            self._records = self._opened()
        deadline = time.monotonic() + READ_SECONDS
        while self._unread:
            self._poll()
            if time.monotonic() > deadline:
                reason = f"its end was not reached in {READ_SECONDS:g} s"
                raise self._error(ClientFailure("_TIMED_OUT", reason))

    def follow(self, seconds: float) -> None:
        """Takes what comes within *seconds*.

        Raises:
            ClusterError: The cluster denies access.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._poll()

    def await_entries(self, parts: Collection[Part], seconds: float) -> None:
        """Takes what comes, until something was said of all *parts*: for *seconds* at most.

        Raises:
            ClusterError: The cluster denies access.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.store.are_live(parts):
            self._poll()

    def _opened(self) -> Records:
        alias, properties = self._target.alias, self._target.admin
        with Cluster(alias, properties, patience_s=PATIENCE_SECONDS) as cluster:
            topic = cluster.describe([self.name]).get(self.name)
        if topic is None:
            raise NoAnswerError(f"topic {self.name} is not on cluster {alias}")
        try:
            records = open_records(self._target.consumer, "read_uncommitted")
            self._unread = set(range(topic.partitions))
            # or the earliest
            records.assign({TopicPartition(self.name, one): 0 for one in self._unread})
        except ClientError as error:
            raise self._error(error.failure) from None
        return records

    def _poll(self) -> None:
        try:
            found = self._records.poll(POLL_SECONDS) if self._records else None
        except ClientError as error:
            raise self._error(error.failure) from None
        if found is None:
            return
        tp, record = found
        if record is None:
            self._unread.discard(tp.partition)
        else:
            received = None if self._unread else time.monotonic()
            self.store.take(record.key, record.value, record.timestamp_ms / 1000, received)
            if self.store.unreadable and not self._is_named:
                self._is_named = True
                text = f"{tp} offset {record.offset} is left: {self.store.unreadable}"
                log.bind(self.store.flow).warning("status_word_left", text=text)

    def _error(self, failure: ClientFailure) -> CallError:
        target = self._target
        return call_error(target.alias, target.consumer, READ_TOPIC.of(self.name), failure)


SETTINGS: Final = (
    ("cleanup.policy", "compact"),
    ("message.timestamp.type", "LogAppendTime"),  # a reader trusts one clock, the broker's
    ("segment.ms", "3600000"),
    ("segment.bytes", "16777216"),
    ("min.cleanable.dirty.ratio", "0.1"),
)
"""Of a topic that is created: what a reader must go through stays small."""

PATIENCE_SECONDS: Final = 3.0
DELIVERY_SECONDS: Final = 10.0
LATE: Final = ClientFailure("_MSG_TIMED_OUT", "not acknowledged in time")
MOST_WAITING: Final = 100
"""Records that may be on their way while more are written."""

ROUND_SECONDS: Final = 1.0
"""How long an answer about the topics holds."""

StatusRecord = tuple[bytes, bytes | None]
"""A key and a value; None removes what the key had."""


class StatusClients(AbstractContextManager["StatusClients"]):
    """The clients that write to the status topics of one target. They are closed with the block.

    Args:
        target: The target; flows whose `key_of` is the same may share the clients.

    Attributes:
        lock: Of whoever uses them.
    """

    def __init__(self, target: ClusterConfig) -> None:
        self.lock = RLock()
        self._target = target
        self.properties = {
            key: value for key, value in target.producer.items() if key not in PRODUCER_ONLY
        }
        self._cluster: Cluster | None = None
        self._sender: RecordSender | None = None
        self._names = set[str]()  # of the topics that anybody has asked for
        self._found: Mapping[str, Topic] = {}
        self._found_at = -ROUND_SECONDS

    @staticmethod
    def key_of(target: ClusterConfig) -> Hashable:
        """Returns what the targets of flows have in common that may share clients."""
        return target.alias, frozenset(target.admin.items()), frozenset(target.producer.items())

    def __exit__(self, *_: object) -> None:
        with self.lock:
            if self._cluster is not None:
                self._cluster.__exit__()
            self._cluster = None
            self._sender = None

    @property
    def cluster(self) -> Cluster:
        target = self._target
        self._cluster = self._cluster or Cluster(
            target.alias,
            target.admin,
            client_id="replication-status",
            patience_s=PATIENCE_SECONDS,
        )
        return self._cluster

    def find(self, name: str) -> Topic | None:
        """Returns the topic *name* as it was a moment ago, None if it was not there.

        The flows of a process ask one after the other, so one question is about all their topics.

        Raises:
            ClusterError: The cluster does not answer, or rejects the topic.
        """
        is_recent = time.monotonic() - self._found_at < ROUND_SECONDS
        if is_recent and name in self._found:
            return self._found[name]
        self._names.add(name)
        try:
            found = self.cluster.describe(self._names)
        except CallError as error:
            if not error.rejected:
                raise
            return self.cluster.describe([name]).get(name)
        self._found = found
        self._found_at = time.monotonic()
        return found.get(name)

    @property
    def sender(self) -> RecordSender:
        """The producer; another one after each `drop_sender`.

        Raises:
            ClientError: It cannot be created.
        """
        self._sender = self._sender or open_sender(self.properties, DELIVERY_SECONDS)
        return self._sender

    def drop_sender(self) -> None:
        """Lets the next record have a new producer: some failures are final for one."""
        self._sender = None
        self._found_at = -ROUND_SECONDS  # what was found may be why it failed


class StatusTopic(AbstractContextManager["StatusTopic"]):
    """The topic, for writing; for one thread. It is closed with the block.

    Args:
        config: The flow.
        clients: Those of its target; its own by default.

    Attributes:
        skew: How far the cluster's clocks are ahead at most; None while it has stamped nothing.
    """

    def __init__(self, config: FlowConfig, clients: StatusClients | None = None) -> None:
        self.skew: Skew | None = None
        self.name = config.status.storage_topic
        self._config = config.status
        self._alias = config.target.alias
        self._clients = clients or StatusClients(config.target)
        self._sender: RecordSender | None = None  # of what waits
        self._id = ""
        self._partitions = 0
        self._waiting = 0
        self._failure: ClientFailure | None = None
        # partitions have leaders of their own
        self._clocks = defaultdict[int, SkewMeter](SkewMeter)

    def __exit__(self, *_: object) -> None:
        self._clients.__exit__()

    def write(self, records: Iterable[StatusRecord], seconds: float) -> bool:
        """Writes *records*, and returns when they are acknowledged.

        The topic is created where it is missing: one that was deleted is back with the next record.

        Args:
            records: Keys and values.
            seconds: How long to wait for the acknowledgements.

        Returns:
            Whether the topic is another one than that of the last call, so that it lacks what was
            written there.

        Raises:
            ClusterError: The cluster does not answer, or rejects the topic or a record.
        """
        with self._clients.lock:
            if is_other := self._prepare():  # the client remembers the partitions of the old one
                self._clients.drop_sender()
            self._failure = None
            try:
                self._send(records, seconds)
            except ClientError as error:
                self._failure = error.failure
            if self._failure is not None:
                self._clients.drop_sender()
                raise self._error(self._failure)
            if self._waiting:
                raise self._error(LATE)
            return is_other

    def _send(self, records: Iterable[StatusRecord], seconds: float) -> None:
        sender = self._clients.sender
        if sender is not self._sender:
            self._sender = sender
            self._waiting = 0
        sender.flush(0)
        if self._waiting >= MOST_WAITING:  # the client gives them up by itself
            return
        for key, value in records:
            self._waiting += 1
            to = TopicPartition(self.name, partition_of(key, self._partitions))
            done = partial(self._delivered, to.partition, time.time(), time.monotonic())
            sender.send(to, key, value, done)
        sender.flush(seconds)

    def _delivered(
        self,
        partition: int,
        sent: float,
        begun: float,
        failure: ClientFailure | None,
        stamped_ms: int,
    ) -> None:
        if stamped_ms >= 0:
            acknowledged = sent + time.monotonic() - begun
            self._clocks[partition].add(sent, acknowledged, stamped_ms / 1000)
            skews = [meter.skew for meter in self._clocks.values()]
            self.skew = worst(skew for skew in skews if skew is not None)
        self._waiting -= 1
        self._failure = failure or self._failure

    def _prepare(self) -> bool:
        """Makes sure that the topic is there; returns whether it is another one than before."""
        cluster, topic = self._clients.cluster, self._clients.find(self.name)
        if topic is None:
            partitions, factor = self._config.partitions, self._config.replication_factor
            new = NewTopic(self.name, partitions, factor, SETTINGS)
            topic = cluster.create_topics([new])[self.name]
        elif topic.topic_id != self._id:
            for fault in faults_of(cluster, [self.name], {self.name}):
                log.warning("internal_topic_unfit", topic=self.name, text=fault)
        is_other = self._id not in ("", topic.topic_id)
        self._id = topic.topic_id
        self._partitions = topic.partitions
        return is_other

    def _error(self, failure: ClientFailure) -> CallError:
        properties = self._clients.properties
        return call_error(self._alias, properties, WRITE_TOPIC.of(self.name), failure)
