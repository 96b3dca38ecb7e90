"""MirrorMaker 2 and `replication.mm2.wire` each read what the other has written."""

import contextlib
import uuid
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic, plain_records, send_transactions
from replication.mm2.policy import IdentityPolicy, PrefixPolicy, ReplicationPolicy
from replication.mm2.wire import Checkpoint, Heartbeat, OffsetSync
from replication.model import TopicPartition
from tests.support.internal_topics import InternalRecord, read_internal, write_internal
from tests.support.java_tools import (
    DEFAULT_POLICY,
    IDENTITY_POLICY,
    Formatter,
    JavaToolError,
    console_lines,
    mirror_client,
    reset_offsets,
)
from tests.support.local import Clusters, Until
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.topics import now_ms

pytestmark = pytest.mark.cluster

START_SECONDS = 90  # for MirrorMaker 2


@pytest.fixture
def alias() -> str:
    """A cluster alias that no other test has."""
    return f"a{uuid.uuid4().hex}"


@pytest.mark.parametrize("identity", [False, True], ids=["prefix", "identity"])
def test_mirror_client_finds_our_topics_and_translates_by_our_checkpoints(
    clusters: Clusters, alias: str, *, identity: bool
) -> None:
    policy: ReplicationPolicy = IdentityPolicy(source=alias) if identity else PrefixPolicy()
    group, far = f"{alias}-group", f"{alias}far"
    orders = policy.remote_topic(alias, f"{alias}orders")
    heartbeats = [
        policy.remote_topic(alias, topic) for topic in ("heartbeats", f"{far}.heartbeats")
    ]
    bootstrap = clusters[1].bootstrap
    for topic in (orders, *heartbeats):
        create_topic(bootstrap, topic, 1)
    write_internal(
        clusters[1],
        policy.checkpoints_topic(alias),
        [
            Checkpoint(group, TopicPartition(orders, 0), 5, 3),
            Checkpoint("größe", TopicPartition(orders, 0), 1, 1),
            Checkpoint(group, TopicPartition(orders, 1), 4, 4),
            Checkpoint(group, TopicPartition(orders, 0), 9, 7, "the last word"),
        ],
    )

    answers = mirror_client(
        bootstrap, alias, group, IDENTITY_POLICY if identity else DEFAULT_POLICY
    )

    translated = {f"{orders}-0": [7, "the last word"], f"{orders}-1": [4, ""]}
    assert answers["translateOffsets"] == translated
    assert answers["translateOffsets(pattern)"] == {
        group: translated,
        "größe": {f"{orders}-0": [1, ""]},
    }
    assert {alias, far} <= set(answers["upstreamClusters"])
    assert answers["replicationHops"] == 1
    assert mine(answers["heartbeatTopics"], alias) == sorted(heartbeats)
    assert mine(answers["checkpointTopics"], alias) == [f"{alias}.checkpoints.internal"]
    remote = sorted([orders, *heartbeats])
    assert mine(answers["remoteTopics"], alias) == remote
    assert mine(answers["remoteTopics(source)"], alias) == remote


def test_mirror_client_finds_nothing_of_a_cluster_without_topics(
    clusters: Clusters, alias: str
) -> None:
    answers = mirror_client(clusters[1].bootstrap, alias, "group")

    assert answers["replicationHops"] == -1
    assert answers["remoteTopics(source)"] == []
    assert "translateOffsets" not in answers


@pytest.mark.parametrize(
    ("formatter", "records", "lines"),
    [
        pytest.param(
            "OffsetSync",
            [OffsetSync(TopicPartition("orders", 3), 1000, 997)],
            ["OffsetSync{topicPartition=orders-3, upstreamOffset=1000, downstreamOffset=997}"],
            id="offset sync",
        ),
        pytest.param(
            "Checkpoint",
            [
                Checkpoint("one", TopicPartition("us.orders", 0), 2**40, 5),
                Checkpoint("two", TopicPartition("us.orders", 1), 7, 6, "mine"),
            ],
            [
                (
                    "Checkpoint{consumerGroupId=one, topicPartition=us.orders-0, "
                    "upstreamOffset=1099511627776, downstreamOffset=5, metadata=}"
                ),
                (
                    "Checkpoint{consumerGroupId=two, topicPartition=us.orders-1, "
                    "upstreamOffset=7, downstreamOffset=6, metadata=mine}"
                ),
            ],
            id="checkpoint",
        ),
        pytest.param(
            "Heartbeat",
            [Heartbeat("us", "eu", 1_760_000_000_000)],
            ["Heartbeat{sourceClusterAlias=us, targetClusterAlias=eu, timestamp=1760000000000}"],
            id="heartbeat",
        ),
    ],
)
def test_the_formatters_show_what_we_write(
    clusters: Clusters,
    alias: str,
    formatter: Formatter,
    records: list[InternalRecord],
    lines: list[str],
) -> None:
    write_internal(clusters[1], alias, records)

    assert console_lines(clusters[1].bootstrap, alias, formatter, len(lines)) == lines


def test_reset_offsets_changes_idle_groups_only(
    clusters: Clusters, alias: str, tmp_path: Path
) -> None:
    bootstrap, tp = clusters[1].bootstrap, TopicPartition(alias, 0)
    write_internal(clusters[1], alias, [Heartbeat("a", "b", number) for number in range(9)])
    csv = tmp_path / "offsets.csv"
    csv.write_text(f"{alias},{alias},0,7\n")
    member = consumer_of(clusters[1], alias)
    member.subscribe([alias])
    while not member.assignment():
        member.poll(0.1)

    with pytest.raises(JavaToolError, match="current state is Stable"):
        reset_offsets(bootstrap, csv, alias)

    member.close()
    group = consumer_of(clusters[1], alias)
    assert f"{alias} 0 7" in " ".join(reset_offsets(bootstrap, csv, alias, execute=False).split())
    assert committed(group, tp) is None
    reset_offsets(bootstrap, csv, alias)
    assert committed(group, tp) == 7


def test_what_mirror_maker_2_writes_decodes(
    clusters: Clusters, alias: str, tmp_path: Path, until: Until
) -> None:
    source, target, other = *clusters, f"{alias}target"
    topic, at_end, midway = f"{alias}-orders", f"{alias}-at-end", f"{alias}-midway"
    copied = TopicPartition(f"{alias}.{topic}", 0)
    create_topic(source.bootstrap, topic, 1)
    # A marker follows every five records and is not copied: upstream 0-4, 6-10, downstream 0-9.
    records = islice(plain_records(1, size_bytes=10, now_ms=now_ms()), 10)
    send_transactions(source.bootstrap, topic, records, records_each=5)
    here = TopicPartition(topic, 0)
    for group, position in ((at_end, (*here, 12, "read all")), (midway, (*here, 10))):
        read = KafkaTopicPartition(*position)
        consumer_of(source, group).commit(offsets=[read], asynchronous=False)
    offset_syncs = f"mm2-offset-syncs.{other}.internal"
    write_internal(
        source, offset_syncs, []
    )  # MirrorMaker 2 may start its checkpoint task before it has created this topic
    consumers = [consumer_of(target, group) for group in (at_end, midway)]
    began_ms = now_ms()

    with mirror_maker_2(tmp_path / "mm2", mm2_properties(clusters, alias, other)) as running:

        def groups() -> list[int | None] | None:
            running.check()
            with contextlib.suppress(KafkaException):  # the coordinator may not be up yet
                return [committed(consumer, copied) for consumer in consumers]
            return None

        until(lambda: groups() == [10, 9], START_SECONDS)

    pairs = [*zip(range(5), range(5), strict=True), *zip(range(6, 11), range(5, 10), strict=True)]
    every = [OffsetSync(here, *pair) for pair in pairs]
    syncs = read_internal(source, offset_syncs, OffsetSync)
    assert syncs == [sync for sync in every if sync in syncs]  # a busy MirrorMaker 2 skips some
    assert syncs[-1] == every[-1]
    checkpoints = read_internal(target, f"{alias}.checkpoints.internal", Checkpoint)
    assert {checkpoint.group: checkpoint for checkpoint in checkpoints} == {
        # confluent-kafka commits metadata with the terminating zero of a C string
        at_end: Checkpoint(at_end, copied, 12, 10, "read all\0"),
        midway: Checkpoint(midway, copied, 10, 9),
    }
    every_beat = read_internal(target, "heartbeats", Heartbeat)
    heartbeats = [beat for beat in every_beat if beat.source == alias]
    assert {beat.target for beat in heartbeats} == {other}
    assert all(began_ms < beat.timestamp_ms < now_ms() for beat in heartbeats)


def consumer_of(broker: Broker, group: str) -> Consumer:
    """A consumer that joins the group only if it subscribes."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0}
    return Consumer({**settings, "enable.auto.commit": False})


def committed(consumer: Consumer, tp: TopicPartition) -> int | None:
    # AdminClient.list_consumer_group_offsets would fail, or crash the process with a segmentation
    # fault (librdkafka 2.16.0), while the group's coordinator is loading.
    (answer,) = consumer.committed([KafkaTopicPartition(*tp)], timeout=30)
    return answer.offset if answer.offset >= 0 else None


def mine(topics: list[str], alias: str) -> list[str]:
    """Those of *topics* that belong to the test; other tests use the same cluster."""
    return [topic for topic in topics if alias in topic]
