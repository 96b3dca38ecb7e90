"""Transforms of topics of every kind: compacted, with several writers, and with nothing to copy."""

import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.compare import fits
from replication.demo.topic_log import Content, TopicLog
from replication.demo.workload import ProducedRecord, create_compacted_topic, create_topic
from replication.flows.checkpoints import Checkpoints
from replication.flows.replicate.idle import IdlePartitions
from replication.model import Committed, Flow, Position, TopicPartition
from replication.offsets.map import Exact, OffsetMap
from replication.offsets.pending import PendingRuns
from replication.state.tables import Tables
from replication.upkeep.prepare import prepare_topics
from tests.support.checkpoints import config_of, emitted
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.settings import IDENTITY
from tests.support.stored import record_events, stored, stored_runs
from tests.support.topics import now_ms, send_records
from tests.support.transformed import (
    SETTINGS,
    assert_transformed,
    masked_seventh,
    people,
    unsafe_answers,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

C_TO_B = Flow("C", "B")
HOUR_SECONDS, LOOK_SECONDS = 3600, 300
DROPPED = 3000


def nothing_kept(start: int, count: int) -> Iterable[ProducedRecord]:
    """Records of `people` that `SETTINGS` drop."""
    return (one for one in islice(people(1, start), count) if int((one.key or b"")[1:]) % 7)


def test_an_hour_in_which_everything_is_dropped_is_no_stall(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """The hour is that of the looks, which get the time from their caller."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    tables, tp = Tables(spark, tmp_path.as_uri()), TopicPartition(topic_name, 0)
    context = flow_context(spark, tables, flow_config(*clusters, topic_name, SETTINGS))
    plan = prepare_topics(context.config, context.source, context.target)
    pending = PendingRuns({tp: Position(0, 0)})
    idle = IdlePartitions(context, plan)

    idle.check(pending, 0)
    for now in range(LOOK_SECONDS, HOUR_SECONDS + 1, LOOK_SECONDS):
        send_records(clusters[0], topic_name, nothing_kept(now, 70))
        idle.check(pending, now)
    idle.check(pending, HOUR_SECONDS + LOOK_SECONDS)  # every other look, as a position that moves

    looks = HOUR_SECONDS // LOOK_SECONDS
    assert pending.positions()[tp] == Position(60 * looks, 0)
    assert not tables.exists("events")


def test_what_follows_a_dropped_stretch_is_found_by_a_restart_and_by_groups(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Killed after it, too: the map then ends before the stretch, and the target where it began."""
    source, tp = clusters[0], TopicPartition(topic_name, 0)
    state, kept = tmp_path / "state", tmp_path / "kept"
    config = config_of(clusters, topic_name, SETTINGS)
    create_topic(source.bootstrap, topic_name, 1)

    def drained(records: Iterable[ProducedRecord]) -> RunningFlow:
        send_records(source, topic_name, records)
        flow = RunningFlow(spark, state, config, "drain")
        flow.join()
        return flow

    drained(islice(people(1), 700))
    shutil.copytree(state, kept)
    flow = drained(nothing_kept(700, DROPPED))
    (end,) = flow.context.source.log_ends([tp]).values()
    commit(source, f"g-{topic_name}", {tp: Committed(end - 10)})
    Checkpoints(flow.context).round(at_once=True)

    runs = stored_runs(state, FLOW, tp)
    assert (runs[-1].src_until, runs[-1].tgt_until) == (end, 100), "it has no lag"
    assert OffsetMap(runs).translate(end - 10) == Exact(100)
    assert emitted(flow.context) == {(f"g-{topic_name}", 0): (end - 10, 100, "")}
    shutil.rmtree(state)
    kept.rename(state)
    drained(islice(people(1, 7000), 700))

    assert record_events(state) == []
    assert_transformed(clusters, topic_name, 1)
    offsets = OffsetMap(stored_runs(state, FLOW, tp))
    assert unsafe_answers(clusters, topic_name, 0, offsets) == []


def test_a_compacted_topic_is_filtered_and_gets_other_keys_and_is_found_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, tp = clusters[0], TopicPartition(topic_name, 0)
    state, kept = tmp_path / "state", tmp_path / "kept"
    start = "replication.transforms.third"
    settings = {
        "replication.transforms": "third",
        f"{start}.topics": topic_name,
        f"{start}.filter": "crc32(key) % 3 = 0",
        f"{start}.key": "cast(concat('k ', cast(key as string)) as binary)",
        f"{start}.key.injective": "true",
        f"{start}.value": "cast(upper(cast(value as string)) as binary)",
    }

    def becomes(_topic: str, one: Content) -> Content | None:
        if one.key is None or zlib.crc32(one.key) % 3:
            return None
        return one._replace(key=b"k " + one.key, value=one.value and one.value.upper())

    def drain() -> None:
        flow = RunningFlow(spark, state, flow_config(*clusters, topic_name, settings), "drain")
        flow.join()

    def send(first: int) -> None:
        keys = (b"key-%d" % number for number in range(first, first + 400))
        late = (ProducedRecord(partition=0, key=key, value=b"late") for key in keys)
        send_records(source, topic_name, late)

    create_compacted_topic(source.bootstrap, topic_name, 1, now_ms=now_ms())
    drain()
    shutil.copytree(state, kept)
    send(0)
    drain()
    shutil.rmtree(state)
    kept.rename(state)
    send(400)
    drain()

    assert record_events(state) == [], "counted, and not looked for"
    assert_transformed(clusters, topic_name, 1, becomes)
    offsets = OffsetMap(stored_runs(state, FLOW, tp))
    assert unsafe_answers(clusters, topic_name, 0, offsets, becomes) == []
    tombstones = [one for one in contents(clusters[1], f"A.{topic_name}") if one.value is None]
    assert tombstones, "a tombstone stays one"

    shutil.rmtree(state)
    send(800)
    drain()
    assert [(one.kind, one.reaction) for one in stored(state, "events")] == [("adopted", "match")]
    assert_transformed(clusters, topic_name, 1, becomes)


def test_two_flows_transform_what_they_write_to_one_topic(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    """At least once, as without transforms; each map knows its own records among the others."""
    source, target = clusters
    shared = {"replication.policy.class": IDENTITY, "replication.aggregate.topics": topic_name}
    start = "C->B.replication.transforms"
    theirs = {
        start: "mark",
        f"{start}.mark.topics": topic_name,
        f"{start}.mark.key": "cast(concat('c ', cast(key as string)) as binary)",
    }
    tp = TopicPartition(topic_name, 0)
    sides: Mapping[Flow, tuple[Broker, Mapping[str, str]]] = {
        FLOW: (source, SETTINGS),
        C_TO_B: (own_broker, theirs),
    }
    for broker, _ in sides.values():
        create_topic(broker.bootstrap, topic_name, 1)

    def drain(flow: Flow, first: int) -> None:
        broker, transforms = sides[flow]
        send_records(broker, topic_name, islice(people(1, first), 700))
        config = flow_config(broker, target, topic_name, {**shared, **transforms}, flow)
        RunningFlow(spark, tmp_path / flow.slug, config, "drain").join()

    def becomes(flow: Flow, one: Content) -> Content | None:
        if flow == C_TO_B:
            return one._replace(key=b"c " + (one.key or b""))
        return masked_seventh(topic_name, one)

    for first in (0, 700):
        for flow in sides:
            drain(flow, first)

    found = contents(target, topic_name)
    at = {content: offset for offset, content in enumerate(found)}
    assert len(at) == len(found) == 200 + 1400, "each once"
    for flow, (broker, _) in sides.items():
        offsets = OffsetMap(stored_runs(tmp_path / flow.slug, flow, tp))
        for upstream, one in enumerate(contents(broker, topic_name)):
            if made := becomes(flow, one):
                answer = offsets.translate(upstream)
                assert fits(answer, at[made]), f"{flow} {upstream} is at {at[made]}, not {answer}"

    # as after a kill: what the map does not have yet is copied again, and nothing is lost
    state = tmp_path / FLOW.slug
    shutil.copytree(state, tmp_path / "kept")
    drain(FLOW, 1400)
    shutil.rmtree(state)
    (tmp_path / "kept").rename(state)
    drain(FLOW, 2100)
    times = Counter(contents(target, topic_name))
    wanted = [becomes(FLOW, one) for one in contents(source, topic_name)]
    assert {times[one] for one in wanted[:1400] if one} == {1}
    assert {times[one] for one in wanted[1400:2100] if one} <= {1, 2}
    assert {times[one] for one in wanted[2100:] if one} == {1}


def contents(broker: Broker, topic: str) -> list[Content]:
    """The records of partition 0, in order."""
    log = TopicLog(broker.bootstrap, topic, "read_committed")
    return [one.content for one in log.records(0)]
