"""Leaders move, brokers restart in turn, replicas are read: nothing is lost, repeated or stuck."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from replication.demo.brokers import BrokerSettings
from replication.demo.topic_log import log_ends
from replication.demo.workload import LatencyProbe, PacedProducer, create_topic
from replication.model import Mode
from tests.support.broker_racks import BrokerRacks, broker_racks
from tests.support.flows import RunningFlow, flow_config
from tests.support.jmx import attributes
from tests.support.local import Addressed, Clusters
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, plain, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(900)]

Side = Literal["source", "target"]
Both = tuple[Addressed, Addressed]

PARTITIONS = 6
PER_SECOND = 200.0
HELD = 500
"""Records of a transaction, which none of its consumers may see before its end."""
ONE_TASK: Final = {"replication.source": "shared", "tasks.max": "1"}
ON_TARGET: Final = ("replication.factor", "checkpoints.topic.replication.factor")
ON_SOURCE: Final = ("offset-syncs.topic.replication.factor",)


@pytest.fixture(scope="module")
def racks(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerRacks]:
    """Three brokers. Leave them running."""
    with broker_racks(tmp_path_factory.mktemp("racks"), broker_settings) as brokers:
        yield brokers


def settings_of(side: Side) -> Mapping[str, str]:
    """Of a flow whose other side has one broker."""
    replicated = ON_SOURCE if side == "source" else ON_TARGET
    return {**ONE_TASK, **dict.fromkeys(replicated, "3")}


@contextmanager
def open_transaction(source: Addressed, topic: str) -> Iterator[None]:
    """Aborts one transaction, and keeps another open for the block; then it is committed."""
    producer = Producer(
        {
            "bootstrap.servers": source.bootstrap,
            "transactional.id": f"long-{topic}",
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    for is_aborted in (True, False):
        producer.begin_transaction()
        for number in range(HELD):
            producer.produce(topic, b"%s %d" % (b"aborted" if is_aborted else b"held", number))
        assert producer.flush(60) == 0
        if is_aborted:
            producer.abort_transaction(60)
    yield
    producer.commit_transaction(60)


@contextmanager
def load(source: Addressed, topic: str, partitions: int) -> Iterator[None]:
    """Sends records at a fixed rate during the block."""
    producer = PacedProducer(
        source.bootstrap, {topic: plain(partitions)}, records_per_second=PER_SECOND
    )
    producer.start()
    try:
        yield
    finally:
        producer.finish()


@contextmanager
def timed(what: str, both: Both, topic: str, flow: RunningFlow) -> Iterator[None]:
    """Prints how long records took during the block: to a client of the source, and to the copy.

    It ends when all that the source had at the block's end is copied.
    """
    probes = (
        LatencyProbe(both[0].bootstrap, (topic,)),
        LatencyProbe(both[1].bootstrap, (f"A.{topic}",)),
    )
    for probe in probes:
        probe.start()
    yield
    end = log_ends(both[0].bootstrap, [topic])[topic]
    flow.until(lambda: copied(both, topic) >= end)
    found = [max(probe.finish().popitem()[1], default=0.0) for probe in probes]
    print(f"{what}: source {found[0]:.0f} ms, copy {found[1]:.0f} ms")  # noqa: T201 - the answer


def assert_went_on(flow: RunningFlow) -> None:
    """Asserts that no query failed and that nothing happened which an operator should look at."""
    events = stored(flow.tables, "events")
    expected = {"transaction-open", "transaction-ended"}  # of one that is open for two minutes
    assert not [f"{event.kind}: {event.text}" for event in events if event.kind not in expected]


@pytest.mark.parametrize(
    ("mode", "restarts"),
    [
        pytest.param("realtime", 1, id="one restart"),
        pytest.param("realtime", 3, id="rolling restart", marks=pytest.mark.soak),
        pytest.param("microbatch", 3, id="rolling restart, micro-batches", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_moved_leaders_and_restarted_brokers_lose_and_repeat_nothing(
    spark: SparkSession,
    clusters: Clusters,
    racks: BrokerRacks,
    tmp_path: Path,
    topic_name: str,
    side: Side,
    mode: Mode,
    restarts: int,
) -> None:
    """One task reads all, also the topic in which a transaction stays open all the time."""
    both: Both = (racks, clusters[1]) if side == "source" else (clusters[0], racks)
    held = f"{topic_name}-held"
    for topic, partitions in ((topic_name, PARTITIONS), (held, 1)):
        if side == "source":
            racks.create_spread_topic(topic, partitions)
        else:
            create_topic(clusters[0].bootstrap, topic, partitions)
    send(both[0], topic_name, PARTITIONS, PARTITIONS)
    config = flow_config(*both, f"{topic_name}.*", settings_of(side))
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(both, topic_name) >= PARTITIONS)
    moved = topic_name if side == "source" else f"A.{topic_name}"

    with open_transaction(both[0], held), load(both[0], topic_name, PARTITIONS):
        with timed(f"{side}, {mode}: nothing happens", both, topic_name, flow):
            send(both[0], topic_name, PARTITIONS, PARTITIONS)
        with timed(f"{side}, {mode}: leaders move twice", both, topic_name, flow):
            racks.move_leaders(moved)
            racks.move_leaders(moved)
        for broker in racks.brokers[:restarts]:
            with timed(f"{side}, {mode}: broker {broker.alias} restarts", both, topic_name, flow):
                racks.restart(broker)
        assert copied(both, held) == 0
    flow.until(lambda: copied(both, held) >= HELD)
    end = log_ends(both[0].bootstrap, [topic_name])[topic_name]
    flow.until(lambda: copied(both, topic_name) >= end)
    flow.stop()

    assert_equal(both, topic_name, held)
    assert copied(both, topic_name) == end
    assert_went_on(flow)


def read_replicas(topic: str) -> list[int]:
    """The broker that each partition is read from, as its consumer says; -1 is the leader."""
    beans = f"kafka.consumer:type=consumer-fetch-manager-metrics,topic={topic},*"
    return [int(broker) for broker in attributes(beans, "preferred-read-replica").values()]


def test_the_replica_in_the_reader_s_rack_is_read_and_any_other_while_it_is_away(
    spark: SparkSession, clusters: Clusters, racks: BrokerRacks, tmp_path: Path, topic_name: str
) -> None:
    both: Both = (racks, clusters[1])
    racks.create_topic(topic_name, [[1, 2], [3, 2]])
    send(racks, topic_name, 2, 100)
    near = {"A.consumer.client.rack": "rack-2"}
    config = flow_config(*both, topic_name, {**settings_of("source"), **near})
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(both, topic_name) >= 100)
    flow.until(lambda: read_replicas(topic_name) == [2, 2])
    second = racks.brokers[1]

    with load(racks, topic_name, 2):
        with timed("a replica is read", both, topic_name, flow):
            send(racks, topic_name, 2, 100)
        flow.until(lambda: read_replicas(topic_name) == [2, 2])
        with timed("the replica that is read is killed", both, topic_name, flow):
            second.kill()
            flow.until(lambda: read_replicas(topic_name) == [-1, -1])
        with timed("it is there again", both, topic_name, flow):
            second.start()
            wait_until(racks.is_whole, 90)
            flow.until(lambda: read_replicas(topic_name) == [2, 2])
    end = log_ends(racks.bootstrap, [topic_name])[topic_name]
    flow.until(lambda: copied(both, topic_name) >= end)
    flow.stop()

    assert_equal(both, topic_name)
    assert_went_on(flow)
