"""What a topic got in each second, by the times that producers gave its records as they sent them.

Flows under test have ``record.timestamps=broker``: then the time is that of the copy. A time of a
log says what a machine did that hardly ran a test, and a poll of its ends does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replication.demo.brokers import Broker
from replication.demo.topic_log import Content, TopicLog

TIMES = {"record.timestamps": "broker"}
"""The setting of a flow whose rate is measured."""


@dataclass(frozen=True)
class Sent:
    """A record's time in milliseconds, and the bytes of key, value and headers."""

    at_ms: int
    size: int


def sent_to(broker: Broker, topic: str) -> list[Sent]:
    """All records of *topic*, in the order of their times."""
    log = TopicLog(broker.bootstrap, topic, "read_uncommitted")
    return sorted(
        (
            Sent(record.content.timestamp_ms, _size(record.content))
            for partition in log.partitions()
            for record in log.records(partition)
        ),
        key=lambda sent: sent.at_ms,
    )


def _size(content: Content) -> int:
    headers = sum(len(key) + len(value or b"") for key, value in content.headers)
    return len(content.key or b"") + len(content.value or b"") + headers


def between(sent: Sequence[Sent], from_ms: int, until_ms: int) -> list[Sent]:
    """Those that were sent from *from_ms* on and before *until_ms*."""
    return [one for one in sent if from_ms <= one.at_ms < until_ms]


def mean(sent: Sequence[Sent], from_ms: int, until_ms: int) -> float:
    """Bytes a second between two times."""
    return sum(one.size for one in between(sent, from_ms, until_ms)) * 1000 / (until_ms - from_ms)


def worst_second(sent: Sequence[Sent]) -> int:
    """The most bytes that any second had, wherever it begins."""
    return max(_windows(sent), default=0)


def _windows(sent: Sequence[Sent]) -> Iterator[int]:
    first = size = 0
    for one in sent:
        size += one.size
        while one.at_ms - sent[first].at_ms >= 1000:
            size -= sent[first].size
            first += 1
        yield size
