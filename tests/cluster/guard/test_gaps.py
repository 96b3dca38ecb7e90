"""A target without an offset map may lack records before its newest one: none of them is lost.

The targets are written here as mirrors leave them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic, sending
from replication.flows.context import FlowContext
from replication.kafka.reader import read_records
from replication.model import Position, TopicPartition
from replication.positions.place import MOST_OF_PARTITION, Existing, Match, match_existing_targets
from replication.state.tables import Tables
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.local import Clusters
from tests.support.stored import record_events, stored
from tests.support.topics import delete_records, now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NOW_MS = now_ms()
LONG = MOST_OF_PARTITION + 10_000


def records(
    numbers: Iterable[int], partition: int = 0, keys: int | None = None
) -> list[ProducedRecord]:
    """Records with a time of their own; of so many keys, if they have any."""
    return [
        ProducedRecord(
            partition=partition,
            key=None if keys is None else b"k%d" % (number % keys),
            value=b"%d" % number,
            timestamp_ms=NOW_MS - 3_600_000 + number,
        )
        for number in numbers
    ]


def make(broker: Broker, topic: str, partitions: int = 1, **settings: str) -> None:
    own = {key.replace("_", "."): value for key, value in settings.items()}
    create_topic(broker.bootstrap, topic, partitions, own)


def values(broker: Broker, topic: str, partition: int = 0) -> list[int]:
    found = read_records(
        {"bootstrap.servers": broker.bootstrap},
        TopicPartition(topic, partition), 0, 10**9, "read_committed",
    )  # fmt: skip
    return [int(record.value or b"-1") for record in found]


@pytest.fixture
def context(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> FlowContext:
    tables = Tables(spark, tmp_path.as_uri())
    return flow_context(spark, tables, flow_config(*clusters, topic_name))


def find(context: FlowContext, topic: str, log_ends: Sequence[int]) -> list[Match]:
    """What is found of each partition, by the log ends of their copies."""
    existing = {
        TopicPartition(topic, number): Existing(
            TopicPartition(f"A.{topic}", number), Position(0, log_end)
        )
        for number, log_end in enumerate(log_ends)
    }
    found = match_existing_targets(context, existing)
    assert all(isinstance(match, Match) for match in found.values()), found
    return [match for match in found.values() if isinstance(match, Match)]


def test_a_flow_without_a_map_resumes_at_the_record_that_the_target_lacks(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    for broker, name in ((source, topic_name), (target, f"A.{topic_name}")):
        make(broker, name, 3)
    lacked = {0: {5}, 1: set[int](), 2: {40, 41}}
    for partition, gone in lacked.items():
        send_records(source, topic_name, records(range(100), partition))
        there = [number for number in range(100) if number not in gone]
        send_records(target, f"A.{topic_name}", records(there, partition))

    flow = RunningFlow(spark, tmp_path, flow_config(source, target, topic_name), "drain")
    flow.join()

    for partition, gone in lacked.items():
        again = range(min(gone), 100) if gone else ()
        expected = [number for number in range(100) if number not in gone]
        assert values(target, f"A.{topic_name}", partition) == [*expected, *again]
    events = {event.partition: event for event in stored(flow.tables, "events", "kind = 'adopted'")}
    assert {number: event.reaction for number, event in events.items()} == {
        0: "at least once", 1: "match", 2: "at least once",
    }  # fmt: skip
    assert (
        "2 records before it are not there, the first one of which has offset 40" in events[2].text
    )


def test_what_mirrors_leave_is_told_from_a_gap(
    context: FlowContext, clusters: Clusters, topic_name: str
) -> None:
    source, target = clusters
    numbers = list(range(300))
    logs = [
        (numbers, numbers, 300, "whole"),
        (numbers, [*numbers[:50], *numbers[30:]], 300, "repeated, as by a mirror that was killed"),
        (numbers, numbers[1:], 0, "the first record was rejected"),
        (numbers, [*numbers[:100], *numbers[101:]], 100, "199 records behind a rejected one"),
        (numbers, [0, 2, *numbers[2:]], 1, "as many repeated as rejected"),
        ([*numbers[:280:3], *numbers[280:]], numbers, 300, "the source was compacted"),
    ]
    for broker, name in ((source, topic_name), (target, f"A.{topic_name}")):
        make(broker, name, len(logs))
    for partition, (ours, theirs, _, _) in enumerate(logs):
        send_records(source, topic_name, records(ours, partition))
        send_records(target, f"A.{topic_name}", records(theirs, partition))

    found = find(context, topic_name, [len(theirs) for _, theirs, _, _ in logs])

    for match, (ours, _, resumed, what) in zip(found, logs, strict=True):
        assert match.position.upstream == min(resumed, len(ours)), (what, match.text)
        assert match.has_gap == (resumed < len(ours) and resumed < 300), what


def test_a_gap_is_found_between_transactions(
    context: FlowContext, clusters: Clusters, topic_name: str
) -> None:
    source, target = clusters
    for broker, name in ((source, topic_name), (target, f"A.{topic_name}")):
        make(broker, name, 2)
    with sending(source.bootstrap, transactional_id=topic_name) as sender:
        for start in range(0, 60, 6):
            with sender.transaction():
                for partition in range(2):
                    for record in records(range(start, start + 6), partition):
                        sender.send(topic_name, record)
            with sender.transaction(abort=True):
                for partition in range(2):
                    sender.send(topic_name, records([1000 + start], partition)[0])
    whole = list(range(60))
    send_records(target, f"A.{topic_name}", records(whole, 0))
    send_records(target, f"A.{topic_name}", records([n for n in whole if n != 20], 1))

    complete, gap = find(context, topic_name, [60, 59])

    assert (complete.has_gap, gap.has_gap) == (False, True)
    # six records, a marker, an aborted record and its marker for each group of six
    assert gap.position.upstream == 20 // 6 * 9 + 20 % 6
    assert complete.position.upstream == 9 * 9 + 6


def test_a_compacted_target_lacks_only_what_no_later_record_replaces(
    context: FlowContext, clusters: Clusters, topic_name: str
) -> None:
    source, target = clusters
    make(source, topic_name, 2)
    make(target, f"A.{topic_name}", 2, cleanup_policy="compact")
    for partition in range(2):
        send_records(source, topic_name, records(range(100), partition, keys=7))
    newest = range(93, 100)  # of each key the last one
    send_records(target, f"A.{topic_name}", records([0, 5, 50, *newest], 0, keys=7))
    send_records(
        target, f"A.{topic_name}", records([0, 5, *[n for n in newest if n != 95]], 1, keys=7)
    )

    complete, gap = find(context, topic_name, [10, 8])

    assert (complete.position, complete.has_gap) == (Position(100, 10), False)
    assert (gap.position, gap.has_gap) == (Position(95, 8), True)


def test_what_retention_has_deleted_on_either_side_is_no_gap(
    context: FlowContext, clusters: Clusters, topic_name: str
) -> None:
    source, target = clusters
    for name, broker in ((topic_name, source), (f"A.{topic_name}", target)):
        make(broker, name)
        send_records(broker, name, records(range(100)))
    delete_records(target, f"A.{topic_name}", 30)
    (shorter_target,) = find(context, topic_name, [100])
    delete_records(source, topic_name, 60)
    (shorter_source,) = find(context, topic_name, [100])

    assert shorter_target.position == shorter_source.position == Position(100, 100)
    assert not shorter_target.has_gap
    assert not shorter_source.has_gap


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "with a gap"])
def test_long_logs_are_sampled_and_read_as_a_whole_where_that_shows_a_difference(
    context: FlowContext, clusters: Clusters, topic_name: str, *, broken: bool
) -> None:
    source, target = clusters
    for name, broker in ((topic_name, source), (f"A.{topic_name}", target)):
        make(broker, name)
    send_records(source, topic_name, records(range(LONG)))
    there = [number for number in range(LONG) if number != 700 or not broken]
    send_records(target, f"A.{topic_name}", records(there))

    (match,) = find(context, topic_name, [len(there)])

    assert match.position.upstream == (700 if broken else LONG)
    assert ("older ones were sampled" in match.text) != broken


def test_nothing_of_records_without_timestamps_is_lost_or_repeated(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    make(source, topic_name)
    mixed = [
        replace(record, timestamp_ms=record.timestamp_ms if number % 3 else -1)
        for number, record in enumerate(records(range(60)))
    ]
    parts = [mixed[:20], mixed[20:40], mixed[40:]]
    send_records(source, topic_name, parts[0])
    RunningFlow(spark, tmp_path / "crashed", config, "drain").join()
    send_records(source, topic_name, parts[1])
    # written beyond the offset map of the other, as by a batch that was cut
    lost = RunningFlow(spark, tmp_path / "lost", config, "drain")
    lost.join()
    crashed = RunningFlow(spark, tmp_path / "crashed", config, "drain")
    crashed.join()
    send_records(source, topic_name, parts[2])
    RunningFlow(spark, tmp_path / "crashed", config, "drain").join()

    assert values(target, f"A.{topic_name}") == list(range(60))
    assert record_events(crashed.tables) == []
    assert [event.reaction for event in stored(lost.tables, "events")] == ["match"]


def test_records_that_all_have_no_timestamps_are_found_without_a_map(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    make(source, topic_name)
    untimed = [replace(record, timestamp_ms=-1) for record in records(range(100))]
    send_records(source, topic_name, untimed[:50])
    RunningFlow(spark, tmp_path / "lost", config, "drain").join()
    send_records(source, topic_name, untimed[50:])

    RunningFlow(spark, tmp_path / "new", config, "drain").join()

    assert values(target, f"A.{topic_name}") == list(range(100))
