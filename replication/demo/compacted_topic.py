"""Creates a compacted topic whose log has gaps, to test the offset map."""

import time
from collections.abc import Iterator

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from replication.demo.topic_log import TopicLog
from replication.demo.workload import HEADERS, ProducedRecord, create_topic, sending
from replication.errors import ClusterError

ROLL_MS = 10_000
TIMEOUT_SECONDS = 240.0


def create_compacted_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    now_ms: int,
    rounds: int = 10,
    records_each: int = 100,
    keys: int = 150,
) -> int:
    """Creates *topic*, fills it with overlapping keys and returns once it is compacted.

    Later records are not compacted, so that a comparison with a copy is fair. The broker must run
    with ``QUICK_COMPACTION``.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topic: A name that does not exist yet.
        partitions: Each receives the same records.
        now_ms: The current time; the records are a little older.
        rounds: Closed segments per partition, in addition to the open one.
        records_each: Records per round and partition.
        keys: Distinct keys; far fewer than records.

    Returns:
        The records left in each partition.
    """
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": str(ROLL_MS // 2),
    }
    create_topic(bootstrap, topic, partitions, config)
    segments = [
        list(_segment(number, partitions, records_each, keys, now_ms - age * ROLL_MS))
        for number, age in zip(range(rounds + 1), range(rounds + 1, 0, -1), strict=True)
    ]
    with sending(bootstrap) as sender:
        for segment in segments:
            sender.send_all(topic, segment)
    left = len({record.key for closed in segments[:-1] for record in closed}) + records_each
    for partition in range(partitions):
        _await_records(bootstrap, topic, partition, left)
    _stop_compaction(bootstrap, topic)
    return left


def _segment(
    number: int, partitions: int, records_each: int, keys: int, timestamp_ms: int
) -> Iterator[ProducedRecord]:
    """Yields the records of a segment. A record ``segment.ms`` newer than its first closes it."""
    for in_segment in range(records_each):
        value = number * records_each + in_segment
        key = value * 37 % keys if in_segment % 3 else value * 7 % keys
        for partition in range(partitions):
            yield ProducedRecord(
                partition=partition,
                key=b"key-%d" % key,
                value=None if value % 11 == 0 else b"value %d" % value,
                headers=HEADERS[value % len(HEADERS)],
                timestamp_ms=timestamp_ms,
            )


def _await_records(bootstrap: str, topic: str, partition: int, expected: int) -> None:
    log = TopicLog(bootstrap, topic, "read_committed")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (found := sum(1 for _ in log.records(partition))) != expected:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"compaction of {topic}-{partition} on {bootstrap} took over {TIMEOUT_SECONDS} s: "
                f"{found} records are left, expected {expected}; check that the log cleaner runs"
            )


def _stop_compaction(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = ConfigEntry(
        "segment.ms", str(7 * 86_400_000), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT_SECONDS)
