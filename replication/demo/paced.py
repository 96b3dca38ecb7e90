"""Producers at a set rate beside the mirror, and the probe that measures when records arrive."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import count, cycle
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from replication.demo.workload import ProducedRecord, Sender, sending

# A value that starts with this carries the (machine-wide) monotonic time of its sending.
STAMP: Final = b"\x00sent"
STAMP_BYTES: Final = len(STAMP) + 8
RECORDS_PER_TRANSACTION: Final = 50
ABORT_EVERY: Final = 5


class PacedProducer(threading.Thread):
    """Sends records round the topics at a rate until stopped; ``counts`` then says how many.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: Each topic and where its records come from.
        records_per_second: Over all topics.
        transactional: In transactions of 50 records, each fifth of them aborted.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, Iterator[ProducedRecord]],
        *,
        records_per_second: float,
        transactional: bool = False,
    ) -> None:
        super().__init__(name=f"producer of {', '.join(topics)}", daemon=True)
        self.counts: Counter[str] = Counter()
        self._servers = bootstrap  # not _bootstrap, which is Thread's own
        self._topics = topics
        self._interval = 1 / records_per_second
        self._id = self.name.replace(" ", "-") if transactional else None
        self._stop_asked = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """The thread; its failure is raised by ``finish``."""
        try:
            with sending(self._servers, linger_ms=0, transactional_id=self._id) as sender:
                self._send(sender)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = error

    def finish(self) -> Counter[str]:
        """Stops, waits until all is acknowledged, and returns the committed records per topic."""
        self._stop_asked.set()
        self.join()
        if self._failure is not None:
            raise self._failure
        return self.counts

    def _send(self, sender: Sender) -> None:
        due, topics = time.monotonic(), cycle(self._topics.items())
        for number in count(1):
            abort = number % ABORT_EVERY == 0
            sent: Counter[str] = Counter()
            with sender.transaction(abort=abort) if self._id else nullcontext():
                for _ in range(RECORDS_PER_TRANSACTION):
                    due += self._interval
                    if self._stop_asked.wait(max(0.0, due - time.monotonic())):
                        break
                    topic, records = next(topics)
                    sender.send(topic, stamped(next(records)))
                    sent[topic] += 1
            if not (abort and self._id):
                self.counts.update(sent)
            if self._stop_asked.is_set():
                return


def stamped(record: ProducedRecord) -> ProducedRecord:
    """*record* with the time of its sending, where its value can hold that."""
    if not record.value:
        return record  # a tombstone and an empty value are to stay what they are
    return replace(record, value=STAMP + time.monotonic_ns().to_bytes(8, "big") + record.value)


class LatencyProbe(threading.Thread):
    """Reads topics as they grow, from their ends, and notes how long stamped records took.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: They must exist.
    """

    def __init__(self, bootstrap: str, topics: tuple[str, ...]) -> None:
        super().__init__(name="latency probe", daemon=True)
        self._stop_asked = threading.Event()
        self._taken_ns: dict[str, list[int]] = {topic: [] for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "latency-probe",  # demanded by the client, never joined
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        # From here and not in the thread: what is produced after this line is measured.
        self._consumer.assign([self._end(it, p) for it in topics for p in self._partitions(it)])

    def run(self) -> None:
        """The thread. ``poll`` and not ``consume``, which would wait for company."""
        with closing(self._consumer) as consumer:
            while not self._stop_asked.is_set():
                record = consumer.poll(0.1)
                now_ns = time.monotonic_ns()
                value = record.value() if record and not record.error() else None
                if record and value and value.startswith(STAMP):
                    sent_ns = int.from_bytes(value[len(STAMP) : STAMP_BYTES], "big")
                    self._taken_ns[record.topic() or ""].append(now_ns - sent_ns)

    def finish(self) -> dict[str, list[float]]:
        """Stops; the latencies of each topic in ms, ascending."""
        self._stop_asked.set()
        self.join()
        return {topic: sorted(ns / 1e6 for ns in taken) for topic, taken in self._taken_ns.items()}

    def _partitions(self, topic: str) -> list[int]:
        return list(self._consumer.list_topics(topic, timeout=30).topics[topic].partitions)

    def _end(self, topic: str, partition: int) -> TopicPartition:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return TopicPartition(topic, partition, end)


def percentile(ascending: Sequence[float], share: float) -> float:
    """The value that *share* of all stay below or at; nan if there are none."""
    if not ascending:
        return float("nan")
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]
