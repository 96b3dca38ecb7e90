"""A compacted topic is taken over although the source has lost the last records that were copied.

The logs are written here as compaction and mirrors leave them.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.control.plan import Histories, plan_flow
from replication.control.starts import StoredMap
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import GuardError
from replication.kafka.cluster import open_clusters
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from replication.topics.acls import AclHistory
from replication.topics.configs import SyncHistory
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.internal_topics import write_internal
from tests.support.local import Clusters, Until
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.stored import stored
from tests.support.topics import now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NOW_MS = now_ms()
START_SECONDS = 90  # for MirrorMaker 2
COPIED = range(100)
LEFT = range(50, 80)  # of them, when the keys of the last twenty have got newer records
NEWER = range(130, 150)


def records(numbers: Iterable[int], partition: int, first_key: int = 0) -> list[ProducedRecord]:
    """Records of fifty keys, with times of their own."""
    return [
        ProducedRecord(
            partition=partition,
            key=b"k%d" % (first_key + number % 50),
            value=b"%d" % number,
            timestamp_ms=NOW_MS - 3_600_000 + number,
        )
        for number in numbers
    ]


def values(broker: Broker, topic: str, partition: int) -> list[int]:
    tp, properties = TopicPartition(topic, partition), {"bootstrap.servers": broker.bootstrap}
    found = read_records(properties, tp, 0, 10**9, "read_committed")
    return [int(record.value or b"-1") for record in found]


def make(clusters: Clusters, topic: str, partitions: int) -> None:
    for broker, name in zip(clusters, (topic, f"A.{topic}"), strict=True):
        # with one segment nothing is compacted while the test runs
        create_topic(broker.bootstrap, name, partitions, {"cleanup.policy": "compact"})


@pytest.mark.guarantee
def test_nothing_is_lost_or_repeated_of_a_topic_whose_last_copies_were_compacted_away(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    make(clusters, topic_name, 3)
    logs = [
        ([*LEFT, *NEWER], [*COPIED]),
        ([*range(100, 150)], [*COPIED]),  # no original of a copy is left
        ([*LEFT, *NEWER], [number for number in COPIED if number != 60]),
    ]
    for partition, (ours, theirs) in enumerate(logs):
        send_records(source, topic_name, records(ours, partition))
        send_records(target, f"A.{topic_name}", records(theirs, partition))

    flow = RunningFlow(spark, tmp_path, flow_config(*clusters, topic_name), "drain")
    flow.join()

    assert [values(target, f"A.{topic_name}", number) for number in range(3)] == [
        [*COPIED, *NEWER],
        [*COPIED, *range(100, 150)],
        [*logs[2][1], *range(60, 80), *NEWER],  # again from the one that was lacking
    ]
    events = {event.partition: event for event in stored(flow.tables, "events")}
    assert [(number, event.kind) for number, event in sorted(events.items())] == [
        (number, "adopted") for number in range(3)
    ]
    assert [events[number].offset_until for number in range(3)] == [30, 0, 10]
    assert f"its offset 79 is {topic_name}-0 offset 29" in events[0].text
    assert "What A has was not copied yet" in events[1].text


def test_what_may_be_no_copy_is_not_taken_for_one_that_was_compacted(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    names = [f"{topic_name}-{kind}" for kind in ("foreign", "altered", "plain")]
    for name in names[:2]:
        make(clusters, name, 1)
        send_records(source, name, records(range(100, 150), 0))
    for broker, name in zip(clusters, (names[2], f"A.{names[2]}"), strict=True):
        create_topic(broker.bootstrap, name, 1)
    send_records(source, names[2], records([*LEFT, *NEWER], 0))
    altered = [replace(record, value=b"0") for record in records(range(100, 150), 0)]
    send_records(target, f"A.{names[0]}", records(COPIED, 0, first_key=1))
    send_records(target, f"A.{names[1]}", altered)
    send_records(target, f"A.{names[2]}", records(COPIED, 0))

    config = flow_config(*clusters, f"{topic_name}-.*")
    with pytest.raises(GuardError) as caught:
        RunningFlow(spark, tmp_path, config, "drain").join()

    text = str(caught.value)
    assert [text.count(f"in {name}-0 on cluster A") for name in names] == [1, 1, 1]
    assert "write replication.takeover.topic" in text
    assert "mm2-offsets.A.internal" in text
    for name, count in zip(names, (100, 50, 100), strict=True):
        assert len(values(target, f"A.{name}", 0)) == count


@pytest.mark.soak
def test_a_compacted_topic_goes_on_where_mirror_maker_2_stopped(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, until: Until
) -> None:
    source, target = clusters
    flow = unique_flow()
    topic, remote = f"{flow.source}-compacted", f"{flow.source}.{flow.source}-compacted"
    own = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "5000",  # by the records' times, so that what is sent later closes a segment
    }
    create_topic(source.bootstrap, topic, 1, own)
    write_internal(source, f"mm2-offset-syncs.{flow.target}.internal", [])
    send_records(source, topic, records(COPIED, 0))
    with mirror_maker_2(
        tmp_path / "mm2", mm2_properties(clusters, flow.source, flow.target)
    ) as running:

        def has_copied() -> bool:
            running.check()
            return log_ends(target.bootstrap, [remote]).get(remote) == len(COPIED)

        until(has_copied, START_SECONDS)
    for numbers, later_ms in ((NEWER, 60_000), (range(1000, 1001), 120_000)):
        send_records(
            source,
            topic,
            [
                replace(record, timestamp_ms=record.timestamp_ms + later_ms)
                for record in records(numbers, 0, first_key=0 if numbers is NEWER else 1000)
            ],
        )
    until(lambda: values(source, topic, 0) == [*LEFT, *NEWER, 1000], 120)
    config = flow_config(*clusters, topic, {}, flow)

    with open_clusters(config) as both:
        (planned,) = plan_flow(
            config,
            None,
            both,
            StoredMap({}, {}, lambda _tp: ()),
            Histories(SyncHistory.of(()), AclHistory.of(())),
        ).starts
    ours = RunningFlow(spark, tmp_path / "state", config, "drain")
    ours.join()

    (event,) = stored(ours.tables, "events")
    assert (planned.offset, planned.reason) == (event.offset_until, event.text)
    assert log_ends(target.bootstrap, [remote])[remote] == len(COPIED) + len(NEWER) + 1
    assert values(target, remote, 0)[-21:] == [*NEWER, 1000]
