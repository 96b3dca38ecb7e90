"""Chains of Kafka Connect: the same file gives MirrorMaker 2 and the mirror the same records."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import ReplicationError
from replication.kafka.reader import read_records
from replication.model import Flow, TopicPartition
from tests.support.flows import RunningFlow, mirror_config, unique_flow
from tests.support.local import Clusters, Until
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.topics import now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

START_SECONDS = 90  # for MirrorMaker 2
END = ProducedRecord(partition=0, key=b"end", value=b"of the topic")
VALUES = (b"plain", None, b"", b"\xff\xfe")
HEADERS = (
    *((), (("trace", b"1"),), (("test", b""),), (("secret", b"s"), ("other", None))),
    *((("trace", b"1"), ("b", b"\xff"), ("trace", b"2")), (("origin", b"own"),)),
)
KAFKA = "org.apache.kafka.connect.transforms"

BYTES = rf"""
transforms = drop-tests, drop-tombstones, tidy, hide, mark-empty
transforms.drop-tests.type = {KAFKA}.Filter
transforms.drop-tests.predicate = is-test
transforms.drop-tombstones.type = Filter
transforms.drop-tombstones.predicate = is-tombstone
transforms.tidy.type = {KAFKA}.DropHeaders
transforms.tidy.headers = trace, span
transforms.hide.type = {KAFKA}.DropHeaders
transforms.hide.headers = secret
transforms.hide.predicate = is-order
transforms.mark-empty.type = {KAFKA}.InsertHeader
transforms.mark-empty.header = origin
transforms.mark-empty.value.literal = null
transforms.mark-empty.predicate = has-other
transforms.mark-empty.negate = true
predicates = is-test, is-tombstone, is-order, has-other
predicates.is-test.type = {KAFKA}.predicates.HasHeaderKey
predicates.is-test.name = test
predicates.is-tombstone.type = {KAFKA}.predicates.RecordIsTombstone
predicates.is-order.type = {KAFKA}.predicates.TopicNameMatches
predicates.is-order.pattern = [st].+[.][st].+-orders
predicates.has-other.type = HasHeaderKey
predicates.has-other.name = other
"""
"""Under ByteArrayConverter, the default: what a chain leaves of headers arrives as it is."""

TEXTS = rf"""
header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter
transforms = only-orders, bare, stamp, count, word, odd
transforms.only-orders.type = {KAFKA}.Filter
transforms.only-orders.predicate = is-order
transforms.only-orders.negate = true
transforms.bare.type = {KAFKA}.DropHeaders
transforms.bare.headers = trace, test, secret, other, b, origin
transforms.stamp.type = {KAFKA}.InsertHeader
transforms.stamp.header = origin
transforms.stamp.value.literal = it's eu/west-1, a \u00fc
transforms.count.type = {KAFKA}.InsertHeader
transforms.count.header = a:count
transforms.count.value.literal = -12
transforms.word.type = {KAFKA}.InsertHeader
transforms.word.header = word
transforms.word.value.literal = true
transforms.odd.type = {KAFKA}.InsertHeader
transforms.odd.header = origin
transforms.odd.value.literal = 10.0.0.1
predicates = is-order
predicates.is-order.type = {KAFKA}.predicates.TopicNameMatches
predicates.is-order.pattern = (?i)[ST].+[.].+-ORDERS
"""
"""Under the one converter that writes texts; it would make base64 of the records' own headers."""


def chain(text: str, flow: Flow) -> dict[str, str]:
    """The keys of the chain *text* for *flow*, as a file of properties gives them."""
    pairs = (line.partition(" = ") for line in text.strip().splitlines())
    return {f"{flow}.{key}": value for key, _, value in pairs}


def decoded(settings: dict[str, str]) -> dict[str, str]:
    """What Java reads of these values in a file."""
    return {key: value.encode().decode("unicode_escape") for key, value in settings.items()}


def records() -> Iterable[ProducedRecord]:
    """Records of every kind, with times of their own, and one that no chain drops."""
    for number, (value, headers) in enumerate((v, h) for v in VALUES for h in HEADERS):
        yield ProducedRecord(
            partition=0,
            key=b"%d" % number,
            value=value,
            headers=headers,
            timestamp_ms=now_ms() - 60_000 + number,
        )
    yield replace(END, timestamp_ms=now_ms())


def copies(broker: Broker, topic: str) -> list[tuple[object, ...]]:
    """What is in a remote topic; nothing while it does not exist."""
    tp = TopicPartition(topic, 0)
    try:
        found = read_records(
            {"bootstrap.servers": broker.bootstrap}, tp, 0, 10**9, "read_uncommitted"
        )
    except ReplicationError:
        return []
    return [(one.key, one.value, one.headers, one.timestamp_ms) for one in found]


def ours(
    spark: SparkSession, state: Path, ends: tuple[Broker, Broker], text: str, topics: Iterable[str]
) -> list[list[tuple[object, ...]]]:
    """What a drain of the mirror copies of *topics* with the chain *text*."""
    flow = unique_flow()
    names = ",".join(topics)
    config = mirror_config(*ends, names, decoded(chain(text, flow)), flow).flows[0]
    RunningFlow(spark, state, config, "drain").join()
    return [copies(ends[1], f"{flow.source}.{topic}") for topic in topics]


@pytest.mark.guarantee
def test_a_chain_copies_the_same_records_as_mirror_maker_2(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, until: Until
) -> None:
    there, flow = clusters, unique_flow()
    back, ways = (there[1], there[0]), (flow, Flow(flow.target, flow.source))
    chains = (BYTES, TEXTS)
    topics = [[f"{way.source}-{name}" for name in ("orders", "clicks")] for way in ways]
    for ends, names in zip((there, back), topics, strict=True):
        for name in names:
            create_topic(ends[0].bootstrap, name, 1)
            send_records(ends[0], name, records())
    settings = mm2_properties(clusters, flow.source, flow.target) | {
        f"{ways[1]}.enabled": "true",
        f"{ways[1]}.topics": f"{flow.target}-.*",
        **{
            key: text
            for way, one in zip(ways, chains, strict=True)
            for key, text in chain(one, way).items()
        },
    }

    with mirror_maker_2(tmp_path / "mm2", settings) as running:
        theirs = []
        for ends, way, names in zip((there, back), ways, topics, strict=True):
            remote = [f"{way.source}.{name}" for name in names]

            def is_done(name: str, broker: Broker = ends[1]) -> bool:
                running.check()
                return any(key == END.key for key, *_ in copies(broker, name))

            expected = remote if way is flow else remote[:1]
            for name in expected:
                until(partial(is_done, name), START_SECONDS)
            theirs.append([copies(ends[1], name) for name in remote])

    found = [
        ours(spark, tmp_path / way.source, ends, text, names)
        for ends, way, text, names in zip((there, back), ways, chains, topics, strict=True)
    ]
    assert found[0][0] == theirs[0][0]
    assert found[0][1] == theirs[0][1]
    assert found[1][0] == theirs[1][0]
    assert found[1][1] == theirs[1][1] == []
    kept = sum(1 for value in VALUES if value is not None) * (len(HEADERS) - 1) + 1
    assert len(found[0][0]) == kept
    assert found[0][0] != found[0][1], "the chain is to treat orders and clicks differently"
    assert [headers for *_, headers, _ in found[1][0]] == [
        (
            ("origin", "it's eu/west-1, a ü".encode()),
            ("a:count", b"-12"),
            ("word", b"true"),
            ("origin", b"10.0.0.1"),
        )
    ] * (len(VALUES) * len(HEADERS) + 1)
