"""Measures how long records take from the producer to the target cluster.

A producer stamps a value with the time of its sending; the probe reads the copies as they arrive.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from replication.demo.topic_log import offset_range
from replication.demo.workload import ProducedRecord

# A value that starts with this carries the machine-wide monotonic time of its sending.
STAMP: Final = b"\x00sent"
STAMP_BYTES: Final = len(STAMP) + 8
TIMEOUT_SECONDS: Final = 30


def stamp(record: ProducedRecord) -> ProducedRecord:
    """Puts the current time into the record's value, where the value can hold it."""
    if not record.value:
        return record  # tombstones and empty values must stay as they are
    return replace(record, value=STAMP + time.monotonic_ns().to_bytes(8, "big") + record.value)


class LatencyProbe(threading.Thread):
    """Reads topics from their log ends and records the latency of each stamped record.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: Existing topics.
    """

    def __init__(self, bootstrap: str, topics: tuple[str, ...]) -> None:
        super().__init__(name="latency probe", daemon=True)
        self._stop_asked = threading.Event()
        self._latencies_ns: dict[str, list[int]] = {topic: [] for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "latency-probe",  # the client requires one; it never joins
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        # Assigned here and not in the thread, so that all records produced from now on count.
        self._consumer.assign(
            [
                self._end(topic, partition)
                for topic in topics
                for partition in self._partitions(topic)
            ]
        )

    def run(self) -> None:
        """Reads until `finish`; with `poll`, because `consume` waits for a full batch."""
        with closing(self._consumer) as consumer:
            while not self._stop_asked.is_set():
                record = consumer.poll(0.1)
                now_ns = time.monotonic_ns()
                value = record.value() if record and not record.error() else None
                if record and value and value.startswith(STAMP):
                    sent_ns = int.from_bytes(value[len(STAMP) : STAMP_BYTES], "big")
                    self._latencies_ns[record.topic() or ""].append(now_ns - sent_ns)

    def finish(self) -> dict[str, list[float]]:
        """Stops reading and returns the latencies of each topic in ms, ascending."""
        self._stop_asked.set()
        self.join()
        return {
            topic: sorted(latency / 1e6 for latency in latencies)
            for topic, latencies in self._latencies_ns.items()
        }

    def _partitions(self, topic: str) -> list[int]:
        metadata = self._consumer.list_topics(topic, timeout=TIMEOUT_SECONDS)
        return list(metadata.topics[topic].partitions)

    def _end(self, topic: str, partition: int) -> TopicPartition:
        _, end = offset_range(self._consumer, topic, partition, TIMEOUT_SECONDS)
        return TopicPartition(topic, partition, end)


def percentile(ascending: Sequence[float], share: float) -> float:
    """Returns the value below which *share* of all values lie; nan without values."""
    if not ascending:
        return float("nan")
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]
