"""An outage is said by one rule for both sides and all modes, and its end with its length."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from replication.control.status import flow_status
from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.topic_log import log_ends
from replication.demo.workload import ProducedRecord, create_topic, sending
from replication.errors import StateError
from replication.model import EventKind, Mode
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.gate.clock import Limit
from tests.support.local import Clusters
from tests.support.process_tree import paused
from tests.support.stored import reader, stored
from tests.support.topics import assert_equal, copied, fill, plain, send
from tests.support.two_brokers import create_spread_topic, keep_groups_on, two_brokers
from tests.support.waiting import in_time, measured

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.guarantee,
    pytest.mark.timeout(600),
]

SAID_SECONDS = 15
END_SECONDS = 5
QUIET = {"emit.offset-syncs.enabled": "false"}
Side = Literal["source", "target"]


@contextmanager
def away(broker: Broker, how: str) -> Iterator[None]:
    """The broker is paused, with open connections, or killed, so that its port is closed."""
    assert broker.pid
    if how == "paused":
        with paused([broker.pid]):
            yield
        return
    broker.kill()
    yield
    broker.start()


def outages(flow: RunningFlow) -> list[tuple[EventKind, str]]:
    """Kind and cluster of each event about an outage."""
    with suppress(StateError):  # the flow creates the table at this moment
        rows = stored(flow.tables, "events", "kind in ('unreachable', 'reachable')")
        return [(row.kind, row.cluster) for row in rows]
    return []


def troubles(flow: RunningFlow) -> list[tuple[EventKind, str | None]]:
    """What `status` shows."""
    status = flow_status(flow.config.flow, reader(flow.tables))
    return [(trouble.kind, trouble.cluster) for trouble in status.troubles]


@pytest.mark.parametrize(
    ("mode", "side", "how"),
    [
        ("realtime", "source", "paused"),
        ("realtime", "target", "stopped"),
        ("microbatch", "source", "stopped"),
        ("microbatch", "target", "paused"),
    ],
)
def test_an_outage_is_said_of_the_flow_that_it_hits(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    side: Side,
    how: str,
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    both = (own_process, clusters[1]) if side == "source" else (clusters[0], own_process)
    if side == "source":
        fill(own_process, topic_name, 1, 100)
    hit_config = flow_config(*both, topic_name, QUIET)
    cluster = getattr(hit_config, side).alias
    other_config = flow_config(*clusters, topic_name, QUIET, unique_flow())
    hit = RunningFlow(spark, tmp_path / "hit", hit_config, mode)
    other = RunningFlow(spark, tmp_path / "other", other_config, mode)
    hit.until(lambda: copied(both, topic_name) >= 100)
    copy = f"{other_config.flow.source}.{topic_name}"
    other.until(lambda: log_ends(clusters[1].bootstrap, [copy])[copy] >= 100)

    with away(own_process, how):
        gone, began = time.monotonic(), Limit(SAID_SECONDS)
        with in_time(SAID_SECONDS, "the event of the outage"):
            hit.until(lambda: outages(hit) == [("unreachable", cluster)])
        assert troubles(hit) == [("unreachable", cluster)]
        down = time.monotonic() - gone
    with in_time(END_SECONDS, "the event of its end"):
        hit.until(lambda: outages(hit)[1:] == [("reachable", cluster)])
    seen = time.monotonic() - gone

    [end] = stored(hit.tables, "events", "kind = 'reachable'")
    found = re.fullmatch(rf"cluster {cluster} answers again after (\d+) s", end.text)
    assert found
    with measured("the length of the outage", began):
        assert down - 1 <= int(found[1]) <= seen + 3  # from its last answer on
    hit.until(lambda: troubles(hit) == [])
    send(both[0], topic_name, 1, 50)
    hit.until(lambda: copied(both, topic_name) >= 150)
    hit.stop()
    other.stop()
    assert outages(other) == []


def test_a_drain_that_is_hit_says_so_and_goes_on_when_the_cluster_is_back(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
) -> None:
    both = (clusters[0], own_process)
    fill(clusters[0], topic_name, 1, 20_000)
    config = replace(flow_config(*both, topic_name, QUIET), batch_max_records=200)
    drain = RunningFlow(spark, tmp_path, config, "drain")
    drain.until(lambda: copied(both, topic_name) >= 400)

    with away(own_process, "paused"), in_time(SAID_SECONDS, "the event of the outage"):
        drain.until(lambda: outages(drain) == [("unreachable", config.target.alias)])
    with in_time(END_SECONDS, "the event of its end"):
        drain.until(lambda: outages(drain)[1:] == [("reachable", config.target.alias)])
    drain.join()

    assert copied(both, topic_name) == 20_000


@pytest.mark.parametrize("number", [1, 2])
def test_a_partition_whose_leader_does_not_answer_is_said_and_the_others_go_on(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    number: int,
) -> None:
    # broker 1 is the controller: nobody expels it, so all brokers go on to name it the leader
    with two_brokers(tmp_path / "source", broker_settings) as brokers:
        both = (brokers[2 - number], clusters[1])  # the one that is not paused
        create_spread_topic(brokers[0], topic_name)
        send(brokers[0], topic_name, 2, 100)
        servers = ",".join(broker.bootstrap for broker in brokers)
        # while a leader is silent and its cluster still names it, a call waits for so long
        quick = {"A.admin.default.api.timeout.ms": "5000"}
        settings = {**QUIET, **quick, "A.bootstrap.servers": servers}
        config = flow_config(brokers[0], clusters[1], topic_name, settings)
        flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
        flow.until(lambda: copied(both, topic_name) >= 100)

        expected = ("leaderless", config.source.alias, topic_name, number - 1)
        with sending(both[0].bootstrap) as sender:
            # a producer begins with a question to the controller
            sender.send_all(topic_name, islice(only(2 - number), 50))
            flow.until(lambda: copied(both, topic_name) >= 150)
            with away(brokers[number - 1], "paused"):
                with in_time(SAID_SECONDS, "the event of the partition"):
                    flow.until(lambda: partitions(flow) == [expected])
                sender.send_all(topic_name, islice(only(2 - number), 50))
                flow.until(lambda: copied(both, topic_name) >= 200)
        with in_time(END_SECONDS, "the event of its end"):
            flow.until(lambda: partitions(flow)[1:] == [("led", *expected[1:])])
        flow.stop()

        assert outages(flow) == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_copy_whose_leader_does_not_answer_does_not_hold_up_the_others(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    number: int,
) -> None:
    """The controller's cluster goes on to name its leader; of the other broker's, it names none."""
    source, silent, led = clusters[0], number - 1, 2 - number
    with two_brokers(tmp_path / "target", broker_settings) as brokers:
        keep_groups_on(brokers[0], 3 - number)
        create_topic(source.bootstrap, topic_name, 2)
        create_spread_topic(brokers[0], f"A.{topic_name}")
        servers = ",".join(broker.bootstrap for broker in brokers)
        # A batch ends when its producer, which has the held records too, has sent all
        quick = {
            "B.admin.default.api.timeout.ms": "5000",
            "replication.realtime.batch.seconds": "600",
        }
        settings = {**QUIET, **quick, "B.bootstrap.servers": servers}
        config = flow_config(source, brokers[led], topic_name, settings)
        flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
        send(source, topic_name, 2, 100)
        flow.until(lambda: copied((source, brokers[led]), topic_name) >= 100)

        expected = ("leaderless", config.target.alias, topic_name, silent)
        with sending(source.bootstrap) as sender:
            with away(brokers[silent], "paused"):
                sender.send_all(topic_name, islice(only(silent), 50))  # they will be on their way
                with in_time(SAID_SECONDS, "the event of the partition"):
                    flow.until(lambda: partitions(flow) == [expected])
                sender.send_all(topic_name, islice(only(led), 50))
                flow.until(lambda: end_of(brokers[led], f"A.{topic_name}", led) >= 100)
            flow.until(lambda: partitions(flow)[1:] == [("led", *expected[1:])])
            sender.send_all(topic_name, islice(plain(2), 100))
        flow.until(lambda: copied((source, brokers[led]), topic_name) >= 300)
        flow.stop()

        assert_equal((source, brokers[led]), topic_name)
        assert outages(flow) == []


def end_of(broker: Broker, topic: str, partition: int) -> int:
    """The log end of one partition, which its leader is asked for."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[1])
    finally:
        consumer.close()


def partitions(flow: RunningFlow) -> list[tuple[EventKind, str, str, int]]:
    """Kind, cluster, topic and number of each event about a partition without a leader."""
    with suppress(StateError):  # the flow creates the table at this moment
        rows = stored(flow.tables, "events", "kind in ('leaderless', 'led')")
        return [(row.kind, row.cluster, row.topic, row.partition) for row in rows]
    return []


def only(partition: int) -> Iterator[ProducedRecord]:
    """Small records for one of two partitions."""
    return (record for record in plain(2) if record.partition == partition)
