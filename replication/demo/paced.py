"""Produces records at a fixed rate while the mirror runs."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import count, cycle
from typing import Final

from replication.demo.latency import stamp
from replication.demo.workload import ProducedRecord, Sender, sending

RECORDS_PER_TRANSACTION: Final = 50
ABORT_EVERY: Final = 5


class PacedProducer(threading.Thread):
    """Sends records to several topics in turn, at a fixed rate, until it is stopped.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: Each topic and the source of its records.
        records_per_second: Total over all topics.
        transactional: Sends transactions of 50 records and aborts every fifth.
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
        """Produces until `finish`, which raises the thread's failure."""
        try:
            with sending(self._servers, linger_ms=0, transactional_id=self._id) as sender:
                self._send(sender)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = error

    def finish(self) -> Counter[str]:
        """Stops, waits for all acknowledgements, and returns the committed records per topic."""
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
                    sender.send(topic, stamp(next(records)))
                    sent[topic] += 1
            if not (abort and self._id):
                self.counts.update(sent)
            if self._stop_asked.is_set():
                return
