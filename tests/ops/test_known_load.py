"""The figures of a flow are those of a load that is known exactly."""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.figures.histogram import BOUNDS
from replication.figures.lag import steady
from replication.figures.observation import Observation
from replication.flows.observe.flow_observer import RATE_SECONDS
from replication.model import Mode, Position, TopicPartition
from replication.state.tables import Tables
from replication.topics.topic_plan import TopicPlan
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.gate.clock import Limit
from tests.support.known_load import FlowSnapshot, load, observing
from tests.support.local import Clusters, Until
from tests.support.process_tree import paused
from tests.support.waiting import measured

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(900)]

SECONDS = 12
MINUTE = 80  # and what is still counted at its beginning
PER_SECOND = 2000
SIZE = 500


CONSUMER_SECONDS = 0.1
"""A consumer in Python needs some of it to get a record, and its machine the rest."""


def latencies(broker: Broker, topic: str, over: threading.Event, found: list[float]) -> None:
    """Measures as a consumer of the target does, on the same clock."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{topic}-latencies",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.subscribe([topic])
    while not over.is_set():
        messages, now = consumer.consume(500, 0.05), time.time()
        found += [now - one.timestamp()[1] / 1000 for one in messages if one.error() is None]
    consumer.close()


def bucket(seconds: float) -> int:
    """The place of a duration among the bounds."""
    return bisect_left(BOUNDS, seconds)


@pytest.mark.parametrize(
    ("mode", "seconds"),
    [
        ("microbatch", SECONDS),
        ("realtime", SECONDS),
        pytest.param("microbatch", MINUTE, marks=pytest.mark.soak),
        pytest.param("realtime", MINUTE, marks=pytest.mark.soak),
    ],
)
def test_records_bytes_and_latency_are_those_of_the_load(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    until: Until,
    mode: Mode,
    seconds: int,
) -> None:
    partitions = 8 if mode == "microbatch" else 1
    source, target = clusters
    create_topic(source.bootstrap, topic_name, partitions)
    create_topic(target.bootstrap, f"A.{topic_name}", partitions)
    flow = RunningFlow(spark, tmp_path / "state", flow_config(*clusters, topic_name), mode)
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")
    over, ages = threading.Event(), list[float]()
    consumer = threading.Thread(target=latencies, args=(target, f"A.{topic_name}", over, ages))
    consumer.start()

    with observing(flow.context) as seen:
        until(lambda: seen.figure("lag_records") == 0, 60)
        began = Limit(seconds)
        with load(source, topic_name, partitions, PER_SECOND, SIZE) as sent:
            time.sleep(seconds)  # the load is the time
            rate = seen.figure("records_per_second")
        until(lambda: seen.figure("records_total") == sent.records, 60)
        until(lambda: seen.figure("lag_seconds") == 0, 60)
        over.set()
    consumer.join()
    flow.stop()

    last = seen.last
    if seconds > RATE_SECONDS:  # else the rate is that of a shorter time, with its beginning
        with measured("how many records a second were copied", began):
            assert rate == pytest.approx(PER_SECOND, rel=0.02)
    assert last.figures["records_total"] == sent.records
    assert last.figures["bytes_total"] == sent.bytes
    assert last.figures["lag_records"] == 0
    (topic,) = last.topics
    assert (topic.topic, topic.state) == (topic_name, "copying")
    assert len(topic.partitions) == partitions
    latency, transfer = last.histograms["latency_seconds"], last.histograms["transfer_seconds"]
    assert transfer.count >= latency.count > 100
    ages.sort()
    for share in (0.5, 0.99):
        own = latency.quantile(share)
        assert own is not None
        seen_after = ages[int(share * len(ages)) - 1]
        with measured("when a consumer of the test gets the records", began):
            assert bucket(own) <= bucket(seen_after) + 1
            assert bucket(seen_after) <= bucket(own + CONSUMER_SECONDS) + 1


def test_a_drain_has_counted_all_that_it_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 4)
    with load(clusters[0], topic_name, 4, PER_SECOND, SIZE) as sent:
        time.sleep(1)  # the load is the time
    flow = RunningFlow(spark, tmp_path / "state", flow_config(*clusters, topic_name), "drain")
    with observing(flow.context, 0.5) as seen:
        flow.join()
        flow.until(lambda: seen.figure("records_total") == sent.records)
    assert sent.records > 0
    assert seen.figure("records_total", topic_name) == sent.records
    assert seen.figure("bytes_total", topic_name) == seen.figure("bytes_total") == sent.bytes


@pytest.mark.parametrize(
    "jump",
    [
        pytest.param(0, id="the clock goes on"),
        pytest.param(3600, id="it is set an hour ahead"),
        pytest.param(-3600, id="it is set an hour back"),
    ],
)
def test_lag_in_seconds_is_the_age_while_the_target_stands_still(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    jump: int,
) -> None:
    source, real = clusters[0], time.time
    create_topic(source.bootstrap, topic_name, 2)
    flow = RunningFlow(
        spark, tmp_path / "state", flow_config(source, own_broker, topic_name), "microbatch"
    )
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")
    with observing(flow.context, 1.0) as seen, load(source, topic_name, 2, 20, 100):
        until(lambda: seen.figure("records_total") and seen.figure("lag_seconds") == 0, 60)
        assert own_broker.pid is not None
        with paused([own_broker.pid]):
            begun, began = steady(), Limit(11)  # the lease lasts longer
            until(lambda: seen.last.clock > begun + 6, 60)
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            until(lambda: seen.last.clock > begun + 11, 60)
        ended = steady()
        until(lambda: seen.figure("lag_seconds") == 0, 10)
    flow.stop()

    with measured("how old the oldest record was at each look", began):
        assert_ages(seen.all, begun, ended)


def assert_ages(seen: Sequence[Observation], begun: float, ended: float) -> None:
    """The lag of each look at an outage is the time since it begun."""
    during = [one for one in seen if begun + 4 < one.clock < ended]
    ages = [(one.figures["lag_seconds"], one.clock - begun) for one in during]
    assert len(ages) >= 3
    assert all(age - 1 <= lag <= age + 6 for lag, age in ages), ages


def test_an_idle_topic_and_one_with_transactions_have_no_lag(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    source = clusters[0]
    create_topic(source.bootstrap, topic_name, 1)
    flow = RunningFlow(spark, tmp_path / "state", flow_config(*clusters, topic_name), "microbatch")
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")
    producer = Producer(
        {"bootstrap.servers": source.bootstrap, "transactional.id": f"{topic_name}-writer"}
    )
    producer.init_transactions()
    with observing(flow.context) as seen:
        until(lambda: seen.figure("lag_seconds") == 0, 60)
        producer.begin_transaction()
        producer.produce(topic_name, b"v", b"k", 0)
        producer.commit_transaction()
        until(lambda: seen.figure("records_total") == 1, 60)
        until(lambda: position(seen) == 2, 30)  # the marker is passed
        assert seen.figure("lag_records") == seen.figure("lag_seconds") == 0
    flow.stop()


def position(seen: FlowSnapshot) -> float | None:
    """The next source offset of the only partition."""
    return seen.last.topics[0].partitions[0].figures.get("position")


def test_a_backlog_has_its_age_before_anything_is_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    hour_ago = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": clusters[0].bootstrap})
    for _ in range(10):
        producer.produce(topic_name, b"v", b"k", 0, timestamp=hour_ago)
    producer.flush()
    config, tp = flow_config(*clusters, topic_name), TopicPartition(topic_name, 0)
    context = flow_context(spark, Tables(spark, (tmp_path / "state").as_uri()), config)
    plan = TopicPlan({topic_name: f"A.{topic_name}"}, (), {}, (tp,), {topic_name: "id"}, {})
    context.metrics.want(plan, ())
    context.metrics.begin(1, "microbatch", plan, {tp: Position(0, 0)})

    with observing(context, 0.5) as seen:
        until(lambda: seen.figure("lag_seconds"), 60)

    assert seen.figure("lag_records") == 10
    assert seen.figure("lag_seconds") == pytest.approx(seen.last.as_of - hour_ago / 1000, abs=2)
