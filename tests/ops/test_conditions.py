"""Conditions of a flow begin with their real causes, and end with them."""

import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.figures.lag import steady
from replication.figures.observation import Code, Condition, Observation
from replication.figures.status_store import Holder
from replication.flows.checkpoints import Checkpoints
from replication.flows.heartbeats import emit_once
from replication.flows.observe.clocks import Clocks
from replication.flows.observe.flow_observer import FlowObserver
from replication.flows.observe.observer import RareQuestions
from replication.flows.publisher import FlowPublisher
from replication.model import Committed, TopicPartition
from replication.state.tables import Tables
from tests.support.checkpoints import config_of, replicated
from tests.support.flows import RunningFlow, flow_config, flow_context, mirror_config, unique_flow
from tests.support.groups import commit
from tests.support.local import Clusters, Until
from tests.support.topic_settings import alter_topic
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

DAY_MS = 86_400_000
HOUR = 3600.0


def held(observed: Observation, code: Code) -> list[Condition]:
    """What holds of one kind."""
    return [condition for condition in observed.conditions if condition.code == code]


def test_a_group_is_blocked_while_it_is_active_on_the_target(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    group = f"g-{topic_name}"
    fill(clusters[0], topic_name, 1, 100)
    config = config_of(clusters, topic_name, {"sync.group.offsets.enabled": "true"})
    context = replicated(spark, tmp_path, config)
    commit(clusters[0], group, {TopicPartition(topic_name, 0): Committed(40)})
    checkpoints, snapshots = Checkpoints(context), FlowObserver(context, "mirror")
    consumer = Consumer({"bootstrap.servers": clusters[1].bootstrap, "group.id": group})
    consumer.subscribe([f"A.{topic_name}"])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30)

    checkpoints.round(at_once=True)
    (blocked,) = held(snapshots.look(steady(), None), "group-blocked")
    consumer.close()
    checkpoints.round(at_once=True)
    after = snapshots.look(steady(), None)

    assert (blocked.severity, blocked.topic) == ("degraded", None)
    assert group in blocked.text
    assert "group-lists FILE" in blocked.next_step
    assert held(after, "group-blocked") == []
    assert after.figures["checkpoints_total"] == after.histograms["checkpoint_seconds"].count >= 1


def test_a_target_that_keeps_less_is_said_until_it_keeps_as_much(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1, {"retention.ms": "-1"})
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {"retention.ms": str(7 * DAY_MS)})
    config = flow_config(source, target, topic_name, {"sync.topic.configs.enabled": "false"})
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")
    snapshots = FlowObserver(flow.context, "replicate")

    RareQuestions().ask(snapshots)
    (less,) = held(snapshots.look(steady(), None), "target-keeps-less")
    alter_topic(target, f"A.{topic_name}", "retention.ms", "-1")
    RareQuestions().ask(snapshots)  # a minute later
    after = snapshots.look(steady(), None)
    flow.stop()

    assert (less.topic, less.severity) == (topic_name, "degraded")
    assert "retention.ms=604800000 (-1 on the source)" in less.text
    assert less.next_step.endswith(f"--entity-name 'A.{topic_name}' --add-config 'retention.ms=-1'")
    assert held(after, "target-keeps-less") == []


def test_heartbeats_that_stop_are_missing_until_they_come_again(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
) -> None:
    fill(own_broker, topic_name, 1, 1)
    settings = {"heartbeats.replication.enabled": "true"}
    config = mirror_config(own_broker, clusters[1], topic_name, settings, unique_flow())
    (pair,) = [one for one in config.heartbeats if one.alias == config.flows[0].source.alias]
    emit_once(pair)
    flow = RunningFlow(spark, tmp_path, config.flows[0], "microbatch")
    snapshots = FlowObserver(flow.context, "mirror", beat_seconds=pair.interval_seconds)

    def newest() -> float:
        return snapshots.look(steady(), None).figures.get("heartbeat_timestamp_seconds", 0.0)

    flow.until(newest)
    first = newest()
    healthy = snapshots.look(steady(), None)
    (missing,) = held(snapshots.look(steady() + 70, None), "heartbeats-missing")
    emit_once(pair)
    flow.until(lambda: newest() > first)
    after = snapshots.look(steady(), None)
    flow.stop()

    assert held(healthy, "heartbeats-missing") == held(after, "heartbeats-missing") == []
    assert f"no heartbeat of {pair.alias} has arrived for" in missing.text
    assert "--job heartbeats" in missing.next_step


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_the_clock_of_a_cluster_is_compared_with_this_machines(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jump: float,
) -> None:
    config = flow_config(*clusters, "none", flow=unique_flow())
    context = flow_context(spark, Tables(spark, tmp_path.as_uri()), config)
    publisher, alias = FlowPublisher(config), config.target.alias
    snapshots = FlowObserver(context, "mirror", lambda of: publisher.skew if of == alias else None)
    holder = Holder(1, "member", "host/A->B/1")
    context.outages.begin()
    with context.outages, closing(publisher):
        unknown = snapshots.look(steady(), None)
        publisher.publish(unknown, {"records": holder})
        same = snapshots.look(steady(), None)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump)  # the machine's clock is set
        publisher.publish(snapshots.look(steady(), None), {"records": holder})
        other = snapshots.look(steady(), None)

    assert held(unknown, "clock-skew") == held(same, "clock-skew") == []
    (condition,) = held(other, "clock-skew")
    assert condition.severity == "degraded"
    assert f"the clock of cluster {alias} is 3" in condition.text
    skews = {one.name: one.skew for one in other.clusters}
    assert skews.get(alias) == pytest.approx(-jump, abs=60)
    assert {one.name: one.skew for one in unknown.clusters}.get(alias) is None


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_cluster_that_nothing_is_written_to_is_asked_for_its_time(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jump: float,
) -> None:
    config = flow_config(*clusters, "none", flow=unique_flow())
    context = flow_context(spark, Tables(spark, tmp_path.as_uri()), config)
    clocks, alias = Clocks(lambda _alias: None), config.source.alias
    snapshots = FlowObserver(context, "mirror", clocks.skew)

    def looked() -> Observation:
        clocks.ask(config.source)
        return snapshots.look(steady(), None)

    context.outages.begin()
    with context.outages:
        same = looked()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump)  # the machine's clock is set
        soon = looked()
        clocks.forget(alias)  # it was silent
        other = looked()

    assert held(same, "clock-skew") == held(soon, "clock-skew") == []  # once a minute
    (condition,) = held(other, "clock-skew")
    assert f"the clock of cluster {alias} is 3" in condition.text
    skews = {one.name: one.skew for one in other.clusters}
    assert skews == {alias: pytest.approx(-jump, abs=60), config.target.alias: None}
