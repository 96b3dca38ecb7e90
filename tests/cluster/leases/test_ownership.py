"""One owner among processes: who is named, when another follows, and when an owner has lost."""

import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import create_topic
from replication.kafka.jvm import shared_jvm
from replication.kafka.ownership import QUICK, STEADY, Member, Ownership
from replication.model import Flow
from replication.spark.kafka_options import OWNER_ONLY
from replication.state.claim import Claim, LeaseName, join_from
from replication.state.lease import FLUSH_SECONDS
from tests.support.candidate import Candidate
from tests.support.gate.clock import Limit
from tests.support.local import Clusters, Until
from tests.support.proxy import proxied_broker
from tests.support.waiting import Late, in_time, measured

pytestmark = pytest.mark.cluster

START_SECONDS = 20.0
SESSION_SECONDS, REBALANCE_SECONDS = QUICK.session, QUICK.rebalance
SILENCE_SECONDS = QUICK.silence


@pytest.fixture
def group() -> str:
    return f"__lease-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def jvm() -> JVMView:
    return shared_jvm()


def properties(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


@contextmanager
def owner_and_standby(
    broker: Broker, group: str, until: Until
) -> Iterator[tuple[Candidate, Candidate]]:
    """Two processes; the first is the owner, and the second knows it."""
    with ExitStack() as stack:
        first = stack.enter_context(Candidate(properties(broker), group, "first"))
        until(lambda: first.ask() == ("owner", "first"), START_SECONDS)
        second = stack.enter_context(Candidate(properties(broker), group, "second"))
        until(lambda: second.ask() == ("waiting", "first"), START_SECONDS)
        assert first.state == "owner", "it stays the owner when another one joins"
        yield first, second


@pytest.mark.guarantee
def test_one_of_several_that_race_is_the_owner(
    clusters: Clusters, group: str, until: Until
) -> None:
    broker = clusters[1]
    with ExitStack() as stack:
        candidates = [
            stack.enter_context(Candidate(properties(broker), group, f"c{number}"))
            for number in range(4)
        ]

        def states() -> list[str]:
            seen = [candidate.state for candidate in candidates]
            assert seen.count("owner") <= 1
            return seen

        until(lambda: sorted(states()) == ["owner", "waiting", "waiting", "waiting"], 30)
        assert len({candidate.ask()[1] for candidate in candidates}) == 1


def test_an_owner_that_leaves_is_followed_at_once(
    clusters: Clusters, group: str, until: Until
) -> None:
    with owner_and_standby(clusters[1], group, until) as (first, second):
        first.leave()
        with in_time(SESSION_SECONDS / 4, "the change of the owner"):
            until(lambda: second.state == "owner", 5)


@pytest.mark.guarantee
def test_a_killed_owner_is_followed_when_its_session_ends(
    clusters: Clusters, group: str, until: Until
) -> None:
    with owner_and_standby(clusters[1], group, until) as (first, second):
        killed, began = first.kill(), Limit(SESSION_SECONDS)
        until(lambda: second.state == "owner", SESSION_SECONDS + REBALANCE_SECONDS)

        # On a busy machine its last heartbeat may be a while before its end.
        with measured("the session after the last heartbeat", began):
            assert time.monotonic() - killed > SESSION_SECONDS / 2


def test_a_killed_owner_that_is_started_again_takes_its_place_at_once(
    clusters: Clusters, group: str, until: Until
) -> None:
    with owner_and_standby(clusters[1], group, until) as (first, second):
        first.kill()
        with Candidate(properties(clusters[1]), group, "first") as restarted:
            until(lambda: restarted.state == "owner", START_SECONDS)

            assert second.state == "waiting"


def test_a_member_of_the_same_name_ends_the_first_one(
    clusters: Clusters, group: str, until: Until, jvm: JVMView
) -> None:
    member = Member("same", "same", is_quick=True)
    with (
        Ownership(jvm, properties(clusters[1]), group, member) as first,
        ExitStack() as stack,
    ):
        until(lambda: first.state == "owner", START_SECONDS)
        stack.enter_context(Ownership(jvm, properties(clusters[1]), group, member))

        until(lambda: first.state == "lost", SESSION_SECONDS)
        assert "FencedInstanceId" in first.reason


def test_a_process_with_temporary_files_of_its_own_does_not_displace_the_owner(
    clusters: Clusters,
    jvm: JVMView,
    topic_name: str,
    tmp_path: Path,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a service with systemd's PrivateTmp, or a container with the host's network and name."""
    name = LeaseName(Flow(topic_name, "B"))
    join = join_from(jvm, properties(clusters[1]), name)
    with ExitStack() as stack:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "one"))
        first = stack.enter_context(Claim(name, "hdfs://x/state", join))
        until(lambda: first.look() == "owner", START_SECONDS)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "two"))
        second = stack.enter_context(Claim(name, "hdfs://x/state", join))
        # Else the group goes on without the owner, and may name the other one.
        with in_time(STEADY.rebalance / 2, "the owner's joining again"):
            until(lambda: second.look() == "waiting", START_SECONDS)

        assert first.loss() == ""
        assert second.owner.startswith(first.process)
        assert first.machine != second.machine


@pytest.mark.guarantee
def test_an_owner_that_was_paused_for_too_long_has_lost_when_it_goes_on(
    clusters: Clusters, group: str, until: Until
) -> None:
    with owner_and_standby(clusters[1], group, until) as (first, second):
        paused = first.pause()
        until(lambda: second.state == "owner", SESSION_SECONDS + REBALANCE_SECONDS)
        until(lambda: time.monotonic() - paused > SILENCE_SECONDS, SILENCE_SECONDS)
        first.resume()

        assert first.state == "lost", "its first answer: nothing was learned from the group yet"
        assert second.state == "owner"


@pytest.mark.guarantee
def test_an_owner_that_is_cut_off_loses_before_a_standby_may_begin(
    broker_settings: BrokerSettings, tmp_path: Path, group: str, until: Until, jvm: JVMView
) -> None:
    with proxied_broker("B", tmp_path, broker_settings) as (broker, proxy):
        cut_off = {"bootstrap.servers": proxy.bootstrap}
        with Ownership(jvm, cut_off, group, Member("first", "first", is_quick=True)) as first:
            until(lambda: first.state == "owner", START_SECONDS)
            second = Ownership(
                jvm, properties(broker), group, Member("second", "second", is_quick=True)
            )
            until(lambda: second.state == "waiting", START_SECONDS)
            proxy.cut()
            cut, limit = time.monotonic(), Limit(SILENCE_SECONDS + 1, patience=1)
            until(lambda: second.state == "owner", SESSION_SECONDS + REBALANCE_SECONDS)
            named = time.monotonic() - cut
            until(lambda: first.state == "lost", SILENCE_SECONDS)
            lost, is_late = time.monotonic() - cut, limit.is_over
            second.__exit__()

            assert "no heartbeat was answered" in first.reason
            with measured("both ends after the cut", limit):
                assert named > SESSION_SECONDS / 2
                assert lost < named + SILENCE_SECONDS + FLUSH_SECONDS - SESSION_SECONDS
            if is_late:
                raise Late("the owner has noticed that it is cut off", limit)


@pytest.mark.guarantee
def test_a_producer_sends_nothing_once_its_process_has_lost_the_lease(
    clusters: Clusters, group: str, until: Until, jvm: JVMView, topic_name: str
) -> None:
    create_topic(clusters[1].bootstrap, topic_name, 1)
    producer = producer_of(jvm, clusters[1], "guarded")
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic_name, bytearray(b"x"))
    producer.send(record).get()  # without a lease there is no deadline
    with Ownership(
        jvm, properties(clusters[1]), group, Member("same", "same", producer="guarded")
    ) as first:
        until(lambda: first.state == "owner", START_SECONDS)
        producer.send(record).get()
        with Ownership(jvm, properties(clusters[1]), group, Member("same", "same", is_quick=True)):
            until(lambda: first.state == "lost", SESSION_SECONDS)
            with pytest.raises(Py4JJavaError, match="the lease was lost"):
                producer.send(record).get()
    producer.close()


def producer_of(jvm: JVMView, broker: Broker, client_id: str) -> Any:  # noqa: ANN401 - a Java object
    settings = jvm.java.util.HashMap()
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    for key, value in {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client_id,
        "interceptor.classes": OWNER_ONLY,
        "key.serializer": serializer,
        "value.serializer": serializer,
    }.items():
        settings.put(key, value)
    return jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
