"""The watch says of each broker by itself whether it answers."""

import time
from pathlib import Path

import pytest

from replication.demo.brokers import BrokerSettings
from replication.kafka.watch import ClusterWatch
from replication.model import TopicPartition
from tests.support.process_tree import paused
from tests.support.two_brokers import create_spread_topic, two_brokers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]

LONG_SECONDS = 20.0
"""As long as several questions without an answer, and longer than a broker keeps its session."""


@pytest.mark.usefixtures("spark")  # whose JVM has the client
@pytest.mark.parametrize("number", [1, 2])
def test_a_broker_that_answers_is_not_silent_while_another_is_away(
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    number: int,
) -> None:
    # broker 1 is the controller: while it is away, nobody expels it or learns of a new leader
    with two_brokers(tmp_path, broker_settings) as brokers:
        create_spread_topic(brokers[0], topic_name)
        properties = {"bootstrap.servers": ",".join(broker.bootstrap for broker in brokers)}
        leads = {1: TopicPartition(topic_name, 0), 2: TopicPartition(topic_name, 1)}
        watch = ClusterWatch("A", properties)
        watch.follow("test", leads)
        watch.ask()
        pid = brokers[number - 1].pid
        assert pid
        with paused([pid]):
            late = ClusterWatch("A", properties)  # its client knows neither broker yet
            late.follow("test", leads)
            seen, seen_late = silent_for(LONG_SECONDS, watch, late)
        wait_until(lambda: not watch.silent_brokers, 60)
        watch.close()
        late.close()

    assert seen == {number}
    assert seen_late <= {number}
    assert (watch.silence, late.silence) == (None, None)


def silent_for(seconds: float, *watches: ClusterWatch) -> list[set[int]]:
    """The brokers of which each of *watches* has said within *seconds* that they are silent."""
    seen = [set[int]() for _ in watches]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for number, watch in enumerate(watches):
            seen[number] |= watch.silent_brokers.keys()
        time.sleep(0.1)
    return seen
