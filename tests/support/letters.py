"""Dead letters: records that make them, and what is found of them."""

from replication.demo.brokers import Broker
from replication.demo.topic_log import Content, TopicLog
from replication.demo.workload import ProducedRecord
from tests.support.topics import now_ms

LIMIT = "max.message.bytes"
HEADERS = (("trace", b"1"), ("__connect.errors.topic", b"of another queue"), ("none", None))


def numbered(*numbers: int) -> list[ProducedRecord]:
    """A record for each number, in partition 0."""
    return [
        ProducedRecord(partition=0, key=b"%d" % n, value=b"%d" % n, timestamp_ms=now_ms())
        for n in numbers
    ]


def too_large(key: bytes = b"large", size: int = 200_000) -> ProducedRecord:
    """A record with headers that a topic whose `LIMIT` is 100000 rejects."""
    return ProducedRecord(
        partition=0, key=key, value=b"x" * size, headers=HEADERS, timestamp_ms=now_ms()
    )


def letter_settings(topics: str, kind: str, **others: str) -> dict[str, str]:
    """The keys of a flow that keeps letters, if in a topic, then in one of the test's own."""
    settings = {
        "replication.dead.letters": kind,
        "replication.dead.letters.topic": f"dead-{topics}",
    }
    return settings | {key.replace("_", "."): value for key, value in others.items()}


def contents(broker: Broker, topic: str) -> list[Content]:
    """The records of partition 0."""
    log = TopicLog(broker.bootstrap, topic, "read_committed")
    return [record.content for record in log.records(0)]


def keys(broker: Broker, topic: str) -> list[bytes | None]:
    """Their keys."""
    return [content.key for content in contents(broker, topic)]
