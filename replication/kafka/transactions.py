"""The open transactions of one Kafka cluster: who holds a partition's readers back, since when.

This is the Java client, because confluent-kafka cannot describe producers.
"""

import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from replication.java import java_class
from replication.kafka.call import DESCRIBE_PRODUCERS, Call
from replication.kafka.java_admin import JavaAdmin
from replication.kafka.java_errors import failure_in
from replication.kafka.jvm import has_our_classes
from replication.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that holds a partition open.

    Args:
        producer_id: Of its producer.
        last_ms: The time of its last record in the partition.
        name: Its transactional id; empty if this user may not see it.
        since_ms: When it began; None if this user may not see it.
    """

    producer_id: int
    last_ms: int
    name: str = ""
    since_ms: int | None = None


class Transactions(JavaAdmin, AbstractContextManager["Transactions"]):
    """The transactions of one cluster."""

    role = "transactions"

    def open_at(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction | str]:
        """Returns each partition's first open transaction, or why it cannot be known.

        Partitions that have none are absent.

        Raises:
            CallError: The cluster does not answer.
        """
        if not has_our_classes(self._jvm):
            return dict.fromkeys(partitions, "replication.jar is not on the class path")
        asked = sorted(partitions)
        with self.named(Call(f"{DESCRIBE_PRODUCERS} {len(asked)} partitions")):
            calls = java_class(self._jvm, "replication.calls.TransactionCalls")(self._admin)
            answers = json.loads(calls.open(json.dumps(asked)))
        found: dict[TopicPartition, OpenTransaction | str] = {}
        for tp, answer in zip(asked, answers, strict=True):
            if failure := failure_in(answer):
                found[tp] = str(self._failed(DESCRIBE_PRODUCERS.of(tp), failure))
            elif answer:
                found[tp] = OpenTransaction(
                    answer["producer"], answer["last"], answer.get("id", ""), answer.get("since")
                )
        return found
