"""Two sources with one topic name into one target: at least once, and the map right for each."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.admission import Admission
from replication.demo.brokers import Broker
from replication.demo.compare import fits
from replication.demo.topic_log import Content, TopicLog, log_ends
from replication.demo.workload import PacedProducer
from replication.model import PROVENANCE, Flow, Mode, TopicPartition
from replication.offsets.map import Exact, OffsetMap
from tests.support.commands import start_mirror
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.known import known_until
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.settings import IDENTITY
from tests.support.stored import reader, stored, stored_runs
from tests.support.topics import fill, plain, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]

C_TO_B = Flow("C", "B")
NAMES = {"replication.policy.class": IDENTITY}
PARTITIONS = 2
BACKLOG = 300_000
FEW = 1_000
MOST_OF_A_BATCH = 20_000


def shared(topic: str) -> Mapping[str, str]:
    """Settings with which *topic* keeps its name and has several writers."""
    return {**NAMES, "replication.aggregate.topics": topic}


@pytest.mark.soak
@pytest.mark.job
def test_after_a_crash_nothing_is_lost_in_a_topic_with_two_sources(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    source, target = clusters
    fill(source, topic_name, PARTITIONS, BACKLOG)
    fill(own_broker, topic_name, PARTITIONS, FEW)
    settings = {
        **shared(topic_name),
        "replication.mode": "microbatch",
        "replication.batch.max.records": str(MOST_OF_A_BATCH),
        "state.write.interval.seconds": "1",
    }
    file = write_config(tmp_path, clusters, topic_name, settings)
    c_to_b = flow_config(own_broker, target, topic_name, settings, C_TO_B)
    other = RunningFlow(spark, tmp_path / "other", c_to_b, "microbatch")
    other.until(lambda: copies(target, topic_name) == FEW)

    def has_written() -> bool:
        send(own_broker, topic_name, PARTITIONS, 100)  # both flows write at the same time
        return copies(target, topic_name) > FEW + 3 * MOST_OF_A_BATCH

    mirror = start_mirror(file, tmp_path / "mirror.log")
    try:
        until(has_written, 300)
    finally:
        kill_tree(mirror.pid)
        mirror.discard()
    other.stop()
    send(source, topic_name, PARTITIONS, 1000)
    states = {source: (FLOW, tmp_path / "state"), own_broker: (C_TO_B, tmp_path / "other")}
    maps = {side: reader(at).offsets(flow) for side, (flow, at) in states.items()}
    before = [records(target, topic_name, partition) for partition in range(PARTITIONS)]
    anchors = maps[source].progress().anchors

    a_to_b = flow_config(*clusters, topic_name, settings)
    RunningFlow(spark, tmp_path / "state", a_to_b, "drain").join()
    RunningFlow(spark, tmp_path / "other", c_to_b, "drain").join()

    assert sum(map(len, before)) < BACKLOG, "the crash came before the end"
    for partition, found in enumerate(before):
        tp = TopicPartition(topic_name, partition)
        copied = records(target, topic_name, partition)
        originals = {broker: records(broker, topic_name, partition) for broker in maps}
        expected = Counter(record for own in originals.values() for record in own.values())
        there = Counter(found.values())
        unrecorded = Counter(
            content
            for offset, content in originals[source].items()
            if offset >= anchors[tp].position.upstream and there[content]
        )
        assert Counter(copied.values()) == expected + unrecorded
        for broker, own in originals.items():
            offsets = OffsetMap(maps[broker].runs(tp))
            for offset, content in own.items():
                answer = offsets.translate(offset)
                assert isinstance(answer, Exact)
                assert copied[answer.offset] == content, f"{broker.alias} {tp} {offset}"


@pytest.mark.guarantee
def test_a_new_topic_that_another_flow_writes_is_set_aside_and_both_flows_go_on(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    ours, theirs, both = (f"{topic_name}-{name}" for name in ("a", "c", "x"))
    fill(source, ours, 1, 100)
    fill(own_broker, theirs, 1, 100)
    admission = Admission(spark.version, lambda: 100)
    pattern, states = f"{topic_name}.*", (tmp_path / "a", tmp_path / "c")
    configs = (
        flow_config(*clusters, pattern, NAMES),
        flow_config(own_broker, target, pattern, NAMES, C_TO_B),
    )
    a_to_b, c_to_b = (
        RunningFlow(spark, state, config, "microbatch", admission=admission)
        for state, config in zip(states, configs, strict=True)
    )
    a_to_b.until(lambda: copies(target, ours) == copies(target, theirs) == 100)

    fill(source, both, 1, 100)
    a_to_b.until(lambda: copies(target, both) == 100)
    fill(own_broker, both, 2, 50)
    c_to_b.until(lambda: kinds_of_topics(c_to_b.tables) == [("set-aside", both)])
    for broker, topic in ((source, ours), (source, both), (own_broker, theirs)):
        send(broker, topic, 1, 10)
    a_to_b.until(lambda: copies(target, both) == copies(target, ours) == 110)
    c_to_b.until(lambda: copies(target, theirs) == 110)
    a_to_b.stop()
    c_to_b.stop()

    (event,) = stored(c_to_b.tables, "events")
    assert event.text.startswith(
        f"flow A->B writes topic {both} on cluster B, to which C->B would copy {both}; "
    )
    assert f"or name {both} in replication.aggregate.topics of each of them" in event.text
    assert kinds_of_topics(a_to_b.tables) == []
    assert copies(target, both) == 110, "nothing of the other flow"
    assert TopicLog(target.bootstrap, both, "read_uncommitted").partitions() == {0}


def test_a_shared_topic_that_others_write_all_the_time_can_be_started(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    fill(target, topic_name, 1, 1)
    other = PacedProducer(target.bootstrap, {topic_name: plain(1)}, records_per_second=500)
    other.start()
    until(lambda: copies(target, topic_name) > 1, 30)

    config = flow_config(*clusters, topic_name, shared(topic_name))
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.until(lambda: not flow.is_running)
    sent = other.finish()[topic_name]

    flow.join()
    assert copies(target, topic_name) == 1 + 100 + sent
    assert kinds_of_topics(flow.tables) == []


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("microbatch", marks=pytest.mark.soak),
        pytest.param("realtime", marks=pytest.mark.guarantee),
    ],
)
def test_there_and_back_each_record_crosses_once(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    settings = {**shared(topic_name), "replication.provenance.header.enabled": "true"}
    admission = Admission(spark.version, lambda: 100)
    configs = {
        flow: flow_config(*both, topic_name, settings, flow)
        for flow, both in {FLOW: clusters, Flow("B", "A"): clusters[::-1]}.items()
    }

    def started() -> list[RunningFlow]:
        return [
            RunningFlow(spark, tmp_path / flow.slug, config, mode, admission=admission)
            for flow, config in configs.items()
        ]

    for broker, count in zip(clusters, (300, 200), strict=True):
        fill(broker, topic_name, 1, count)
    originals = [records(broker, topic_name, 0) for broker in clusters]
    flows = started()
    for flow in flows:
        flow.until(lambda: all(copies(broker, topic_name) >= 500 for broker in clusters))
    for flow in flows:
        flow.stop()
    flows = started()
    for broker in clusters:
        send(broker, topic_name, 1, 10)
    for flow in flows:
        flow.until(lambda: all(copies(broker, topic_name) >= 520 for broker in clusters))
        flow.until(partial(has_reached, flow, 520))
    for flow in flows:
        flow.stop()

    logs = [records(broker, topic_name, 0) for broker in clusters]
    assert [len(log) for log in logs] == [520, 520], "each record crosses once, none comes back"
    for log, own in zip(logs, originals, strict=True):
        assert [log[offset] for offset in own] == list(own.values())
    assert Counter(map(bare, logs[0].values())) == Counter(map(bare, logs[1].values()))
    for flow, log, other in zip(flows, logs, logs[::-1], strict=True):
        assert_map_fits(flow, log, other)
        assert kinds_of_topics(flow.tables) == []


@pytest.mark.parametrize("timestamps", ["preserve", pytest.param("broker", marks=pytest.mark.soak)])
def test_the_header_does_not_hide_what_was_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, timestamps: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    settings = {"replication.provenance.header.enabled": "true", "record.timestamps": timestamps}
    config = flow_config(*clusters, topic_name, settings)

    for state in ("first", "second"):  # the second one has no map of what the first one copied
        RunningFlow(spark, tmp_path / state, config, "drain").join()
        send(source, topic_name, 1, 10)

    copied = records(target, f"A.{topic_name}", 0)
    assert [content.headers[-1] for content in copied.values()] == [(PROVENANCE, b"A")] * 110
    originals = records(source, topic_name, 0)
    assert [content.value for content in copied.values()] == [
        originals[at].value for at in range(110)
    ]


def assert_map_fits(
    flow: RunningFlow, source: Mapping[int, Content], target: Mapping[int, Content]
) -> None:
    """Asserts that each record that the flow copied is where its map says."""
    alias = flow.config.flow.source.encode()
    runs = stored_runs(flow.tables, flow.config.flow, TopicPartition(flow.config.topics[0], 0))
    offsets = OffsetMap(runs)
    copies_of = {bare(content): at for at, content in target.items() if content.headers}
    for at, content in source.items():
        if (PROVENANCE, flow.config.target.alias.encode()) not in content.headers:
            found = copies_of[content]
            assert target[found].headers[-1] == (PROVENANCE, alias)
            answer = offsets.translate(at)  # what is not copied leaves gaps in the source's offsets
            assert fits(answer, found), f"offset {at} is at {found}, not {answer}"


def has_reached(flow: RunningFlow, offset: int) -> bool:
    """Whether the flow's map reaches up to a source offset."""
    (topic,) = flow.config.topics
    return known_until(flow, TopicPartition(topic, 0)) == offset


def bare(content: Content) -> Content:
    """A record without the header that its copy has."""
    return content._replace(
        headers=tuple(header for header in content.headers if header[0] != PROVENANCE)
    )


def copies(target: Broker, topic: str) -> int:
    return log_ends(target.bootstrap, [topic])[topic]


def records(broker: Broker, topic: str, partition: int) -> dict[int, Content]:
    log = TopicLog(broker.bootstrap, topic, "read_uncommitted")
    return {record.offset: record.content for record in log.records(partition)}
