"""The comparison finds what is there to find, and ends; the workload is as difficult as it says."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

import pytest

from replication.demo.brokers import Broker
from replication.demo.compare import TopicReport, compare
from replication.demo.topic_log import TopicLog
from replication.demo.workload import (
    LatencyProbe,
    PacedProducer,
    ProducedRecord,
    create_compacted_topic,
    create_topic,
    difficult_records,
    percentile,
    send_transactions,
    sending,
)
from replication.errors import ClusterError
from tests.support.local import Clusters

pytestmark = pytest.mark.cluster

NOW_MS = time.time_ns() // 1_000_000
FIVE = [
    ProducedRecord(partition=0, key=b"k%d" % n, value=b"v%d" % n, timestamp_ms=NOW_MS + n)
    for n in range(5)
]


def fill(broker: Broker, topic: str, records: Iterable[ProducedRecord], partitions: int) -> None:
    create_topic(broker.bootstrap, topic, partitions)
    with sending(broker.bootstrap) as sender:
        sender.send_all(topic, records)


def compared(clusters: Clusters, topic: str) -> TopicReport:
    source, target = clusters
    return compare(source.bootstrap, target.bootstrap, {topic: topic})[topic]


def copy(clusters: Clusters, topic: str, partitions: int) -> None:
    """The least that copies a topic right: the stand-in for a mirror."""
    source, target = clusters
    log = TopicLog(source.bootstrap, topic, "read_committed")
    create_topic(target.bootstrap, topic, partitions)
    with sending(target.bootstrap) as sender:
        for partition in range(partitions):
            for _, content in log.records(partition):
                record = ProducedRecord(
                    partition=partition,
                    key=content.key,
                    value=content.value,
                    headers=content.headers,
                    timestamp_ms=content.timestamp_ms,
                )
                sender.send(topic, record)


def test_difficult_records_are_equal_to_themselves(clusters: Clusters, topic_name: str) -> None:
    records = list(islice(difficult_records(3, now_ms=NOW_MS), 3_000))
    for broker in clusters:
        fill(broker, topic_name, records, 3)

    report = compared(clusters, topic_name)

    assert report.is_equal, report
    assert report.is_dense
    assert (report.source_records, report.target_records) == (3_000, 3_000)
    assert {record.key for record in records} >= {None, b"", b"\xff\x00not utf-8"}
    assert {record.value for record in records} >= {None, b""}
    assert len({tuple(record.headers) for record in records}) == 4


@pytest.mark.parametrize(
    ("target", "missing", "repeated", "extra", "at", "text"),
    [
        pytest.param(
            [*FIVE[:2], *FIVE[3:]], 1, 0, 0, (2, 2), "key b'k2' became b'k3'", id="missing"
        ),
        pytest.param(FIVE[:3], 2, 0, 0, (3, None), "the target has no more records", id="cut off"),
        pytest.param(
            [*FIVE[:2], FIVE[1], *FIVE[2:]],
            0,
            1,
            0,
            (2, 2),
            "key b'k2' became b'k1'",
            id="repeated",
        ),
        pytest.param(
            [*FIVE, replace(FIVE[0], key=b"new")],
            0,
            0,
            1,
            (None, 5),
            "the source has no more records",
            id="extra",
        ),
        pytest.param(
            [FIVE[1], FIVE[0], *FIVE[2:]], 0, 0, 0, (0, 0), "key b'k0' became b'k1'", id="order"
        ),
        pytest.param(
            [replace(FIVE[0], value=b"V"), *FIVE[1:]], 1, 0, 1, (0, 0), "value b'v0'", id="value"
        ),
        pytest.param(
            [replace(FIVE[0], value=None), *FIVE[1:]], 1, 0, 1, (0, 0), "became None", id="null"
        ),
        pytest.param(
            [replace(FIVE[0], value=b""), *FIVE[1:]], 1, 0, 1, (0, 0), "became b''", id="empty"
        ),
        pytest.param(
            [replace(FIVE[0], timestamp_ms=NOW_MS - 1), *FIVE[1:]],
            *(1, 0, 1, (0, 0), f"timestamp_ms {NOW_MS} became {NOW_MS - 1}"),
            id="timestamp",
        ),
        pytest.param(
            [replace(FIVE[0], headers=[("h", None)]), *FIVE[1:]],
            *(1, 0, 1, (0, 0), "headers () became (('h', None),)"),
            id="header",
        ),
        pytest.param(
            [replace(FIVE[0], partition=1), *FIVE[1:]],
            *(1, 0, 1, (0, 0), "key b'k0' became b'k1'"),
            id="partition",
        ),
    ],
)
def test_each_kind_of_difference_is_found_and_counted(
    clusters: Clusters,
    topic_name: str,
    target: list[ProducedRecord],
    missing: int,
    repeated: int,
    extra: int,
    at: tuple[int | None, int | None],
    text: str,
) -> None:
    fill(clusters[0], topic_name, FIVE, 2)
    fill(clusters[1], topic_name, target, 2)

    report = compared(clusters, topic_name)

    assert (report.missing, report.repeated, report.extra) == (missing, repeated, extra), report
    assert report.difference is not None
    assert (report.difference.upstream, report.difference.downstream) == at
    assert text in str(report)


@pytest.mark.parametrize("headers", [[("a", b"1"), ("a", b"2")], [("a", b"2")], [("a", None)]])
def test_headers_differ_by_order_duplicates_and_null(
    clusters: Clusters, topic_name: str, headers: list[tuple[str, bytes | None]]
) -> None:
    source = replace(FIVE[0], headers=[("a", b"2"), ("a", b"1")])
    fill(clusters[0], topic_name, [source], 1)
    fill(clusters[1], topic_name, [replace(source, headers=headers)], 1)

    assert not compared(clusters, topic_name).is_equal


def test_transactions_leave_gaps_and_only_committed_records_count(
    clusters: Clusters, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 2)
    records = islice(difficult_records(2, now_ms=NOW_MS), 400)
    committed = send_transactions(
        source.bootstrap, topic_name, records, records_each=40, abort_every=4
    )
    copy(clusters, topic_name, 2)

    report = compared(clusters, topic_name)
    raw = compare(
        source.bootstrap,
        target.bootstrap,
        {topic_name: topic_name},
        isolation="read_uncommitted",
    )[topic_name]

    assert committed == 320
    assert (report.is_equal, report.source_records, report.target_records) == (True, 320, 320)
    assert not report.is_dense
    assert (raw.is_equal, raw.missing) == (False, 80)


def test_an_open_transaction_ends_the_source(clusters: Clusters, topic_name: str) -> None:
    source, _ = clusters
    fill(source, topic_name, FIVE[:3], 1)
    copy(clusters, topic_name, 1)
    with sending(source.bootstrap, transactional_id=topic_name) as sender, sender.transaction():
        sender.send_all(topic_name, FIVE[3:])

        report = compared(clusters, topic_name)

    assert (report.is_equal, report.source_records) == (True, 3)


def test_a_compacted_topic_has_gaps_and_they_stay(clusters: Clusters, topic_name: str) -> None:
    source, _ = clusters
    left = create_compacted_topic(source.bootstrap, topic_name, 2, now_ms=NOW_MS)
    copy(clusters, topic_name, 2)

    report = compare(
        source.bootstrap,
        clusters[1].bootstrap,
        {topic_name: topic_name},
        keep_offsets=True,
    )[topic_name]

    assert report.is_equal, report
    assert report.source_records == 2 * left
    for part in report.partitions:
        assert part.sections > 10
        upstream, downstream = zip(*part.offsets, strict=True)
        assert upstream[-1] == 1_099
        assert downstream == tuple(range(left))


def test_a_target_without_the_topic_misses_all(clusters: Clusters, topic_name: str) -> None:
    fill(clusters[0], topic_name, FIVE, 1)

    report = compared(clusters, topic_name)

    assert (report.missing, report.target_records) == (5, 0)


def test_a_partition_that_only_the_target_has_is_extra(clusters: Clusters, topic_name: str) -> None:
    fill(clusters[0], topic_name, FIVE, 1)
    fill(clusters[1], topic_name, [*FIVE, replace(FIVE[0], partition=1)], 2)

    report = compared(clusters, topic_name)

    assert (report.missing, report.repeated, report.extra) == (0, 0, 1)
    assert not report.is_equal


def test_producers_and_probe_count_what_was_committed(
    clusters: Clusters, topic_name: str, until: Callable[[Callable[[], object], float], None]
) -> None:
    plain, transactional = f"{topic_name}-plain", f"{topic_name}-transactional"
    bootstrap = clusters[0].bootstrap
    for topic in (plain, transactional):
        create_topic(bootstrap, topic, 2)
    probe = LatencyProbe(bootstrap, (plain, transactional))
    probe.start()
    producers = [
        PacedProducer(
            bootstrap,
            {topic: difficult_records(2, now_ms=NOW_MS, large_every=0)},
            records_per_second=1_000,
            transactional=topic == transactional,
        )
        for topic in (plain, transactional)
    ]
    for producer in producers:
        producer.start()
    until(lambda: all(sum(producer.counts.values()) > 200 for producer in producers), 60)
    counts = {topic: n for producer in producers for topic, n in producer.finish().items()}
    latencies = probe.finish()

    for topic, count in counts.items():
        log = TopicLog(bootstrap, topic, "read_committed")
        assert sum(1 for partition in (0, 1) for _ in log.records(partition)) == count
        assert latencies[topic]
        assert 0 < percentile(latencies[topic], 0.5) < 60_000


def test_a_cluster_that_does_not_answer_is_an_error(clusters: Clusters) -> None:
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:9"):
        compare(clusters[0].bootstrap, "127.0.0.1:9", {"t": "t"}, patience_seconds=2)
