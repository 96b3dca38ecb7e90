"""Reads the status topic of a flow: from the beginning to its end, and then what comes.

It is in no group and commits nothing.
"""

import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Final

from replication.config.tree import FlowConfig
from replication.errors import NoAnswerError
from replication.figures.words import Words
from replication.kafka.api import ClientError, ClientFailure, Records
from replication.kafka.call import READ_TOPIC
from replication.kafka.clients import open_records
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError, call_error
from replication.log import Log
from replication.model import Part, TopicPartition

log = Log(__name__)

PATIENCE_SECONDS: Final = 3.0
READ_SECONDS: Final = 10.0
"""How long the way to the topic's end may take."""
POLL_SECONDS: Final = 0.1


class StatusReader(AbstractContextManager["StatusReader"]):
    """One consumer of the topic; for one thread. It is closed with the block.

    Args:
        config: The flow.
    """

    def __init__(self, config: FlowConfig) -> None:
        self.words = Words(config.flow)
        self.name = config.status.storage_topic
        self._target = config.target
        self._records: Records | None = None
        self._unread = set[int]()
        self._is_named = False

    def __exit__(self, *_: object) -> None:
        """Closes the consumer."""
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

    def await_words(self, parts: Collection[Part], seconds: float) -> None:
        """Takes what comes, until something was said of all *parts*: for *seconds* at most.

        Raises:
            ClusterError: The cluster denies access.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.words.are_live(parts):
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
            heard = None if self._unread else time.monotonic()
            self.words.take(record.key, record.value, record.timestamp_ms / 1000, heard)
            if self.words.unreadable and not self._is_named:
                self._is_named = True
                text = f"{tp} offset {record.offset} is left: {self.words.unreadable}"
                log.bind(self.words.flow).warning("status_word_left", text=text)

    def _error(self, failure: ClientFailure) -> CallError:
        call = READ_TOPIC.of(self.name)
        return call_error(self._target.alias, self._target.consumer, call, failure)
