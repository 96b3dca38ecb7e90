"""A transaction that stays open for a while: no later record of its partitions may cross."""

from itertools import islice
from typing import Literal

from confluent_kafka import KafkaException, Producer

from replication.demo.workload import plain_records
from tests.support.topics import now_ms

Ending = Literal["committed", "aborted", "abandoned"]

RECORDS = 200
TIMEOUT_SECONDS = 60.0
TRANSACTION_MS = 20_000  # then the coordinator aborts it


class HeldTransaction:
    """A transaction of some records on one topic. Call `end` once.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topic: Gets the records.
        partitions: The number of its partitions.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "soak-held",
                "transaction.timeout.ms": TRANSACTION_MS,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_SECONDS)
        self._producer.begin_transaction()
        for record in islice(plain_records(partitions, size_bytes=100, now_ms=now_ms()), RECORDS):
            self._producer.produce(
                topic, record.value, record.key, record.partition, timestamp=record.timestamp_ms
            )
        self._producer.flush(TIMEOUT_SECONDS)

    def end(self, ending: Ending) -> Ending:
        """Commits it, aborts it, or leaves it to the coordinator's timeout; returns which."""
        try:
            if ending == "committed":
                self._producer.commit_transaction(TIMEOUT_SECONDS)
            elif ending == "aborted":
                self._producer.abort_transaction(TIMEOUT_SECONDS)
        except KafkaException:  # this machine was so slow that the coordinator was first
            ending = "abandoned"
        del self._producer
        return ending
