"""Many topics or partitions with a few records each, and whether a contender has copied them."""

import resource
import sys
import time
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from replication.demo.workload import plain_records, sending
from replication.kafka.cluster import Cluster
from replication.kafka.reader import chunks
from replication.model import NewTopic, TopicPartition
from tests.bench.load import delete
from tests.support.local import Clusters
from tests.support.running_process import RunningProcess

TOPICS_AT_ONCE: Final = 50
FILES_EACH: Final = 2
"""Open files of a broker for a partition, with some room: it keeps one, the segment's records."""

WAIT_SECONDS: Final = 1200.0
POLL_SECONDS: Final = 0.2


class ManyTopics:
    """Topics of the source that one or several flows copy.

    Args:
        clusters: The source and the target.
        aliases: Of the source, one for each flow; each has copies of its own.
        topics: Their names.
        each: Partitions of each of them.
    """

    def __init__(
        self, clusters: Clusters, aliases: Sequence[str], topics: list[str], each: int
    ) -> None:
        self.topics, self.each, self._aliases = topics, each, aliases
        self._source, self._target = (
            Cluster(name, {"bootstrap.servers": cluster.bootstrap})
            for name, cluster in zip("AB", clusters, strict=True)
        )
        self._expected = 0

    def create(self) -> None:
        """Creates the topics."""
        new = (NewTopic(name, self.each, 1) for name in self.topics)
        for some in chunks(new, TOPICS_AT_ONCE):
            self._source.create_topics(some)

    def add(self, topic: str) -> None:
        """Creates one more."""
        self._source.create_topics([NewTopic(topic, self.each, 1)])
        self.topics.append(topic)

    def send(self, records_each: int, topics: Collection[str] = ()) -> None:
        """Sends so many records to each partition of *topics*, by default of all."""
        chosen = topics or self.topics
        with sending(self._source.servers) as sender:
            now_ms = time.time_ns() // 1_000_000
            for topic in chosen:
                records = plain_records(self.each, size_bytes=100, now_ms=now_ms)
                for record in islice(records, records_each * self.each):
                    sender.send(topic, record)
        self._expected += records_each * self.each * len(chosen)

    def delete(self) -> None:
        """Deletes the topics and their copies, so that whoever comes next does not list them."""
        copies = [f"{alias}.{topic}" for alias in self._aliases for topic in self.topics]
        for cluster, names in ((self._source, self.topics), (self._target, copies)):
            there = cluster.topic_names()
            for some in chunks([name for name in names if name in there], TOPICS_AT_ONCE):
                delete(cluster.servers, *some)

    def await_copies(self, process: RunningProcess) -> None:
        """Waits until every flow has copied all records."""
        copies = [
            TopicPartition(f"{alias}.{topic}", number)
            for alias in self._aliases
            for topic in self.topics
            for number in range(self.each)
        ]
        deadline = time.monotonic() + WAIT_SECONDS
        expected = self._expected * len(self._aliases)
        while sum(self._target.log_ends(copies).values()) < expected:
            pause(process, deadline)


def pause(process: RunningProcess, deadline: float) -> None:
    """Waits between two looks.

    Raises:
        ProcessError: *process* has failed, or *deadline*, in monotonic seconds, has passed.
    """
    process.check()
    if time.monotonic() > deadline:
        raise process.failure(f"did not get there within {WAIT_SECONDS} s")
    time.sleep(POLL_SECONDS)


def broker_heap_mb(partitions: int) -> int:
    """What a broker of so many partitions needs."""
    return 512 + partitions // 4


def raise_file_limit(partitions: int) -> None:
    """Lets brokers of so many partitions open their files; ends the program where that fails."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES_EACH * partitions
    if hard < files:
        sys.exit(f"the brokers need {files} open files, the limit is {hard}: see ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
