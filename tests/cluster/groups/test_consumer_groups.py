"""States, members and offsets of consumer groups on real brokers, through a JVM without Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from py4j.java_gateway import JVMView

from replication.demo.brokers import Broker, BrokerSettings, free_port
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import GroupActiveError, Groups
from replication.kafka.diagnosis import CallError
from replication.kafka.jvm import shared_jvm
from replication.model import Committed, NewTopic, TopicPartition
from tests.support.gate.clock import Limit
from tests.support.local import Clusters, Until
from tests.support.waiting import Late, wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def jvm() -> JVMView:
    """The process's only one: PySpark looks in Spark's for the errors of any other."""
    return shared_jvm()


@pytest.fixture
def groups(jvm: JVMView, clusters: Clusters) -> Iterator[Groups]:
    with Groups(jvm, "A", properties(clusters[0])) as groups:
        yield groups


@pytest.fixture
def topic(clusters: Clusters, topic_name: str) -> str:
    """A topic of two partitions; a group of the test may have its name, too."""
    create(clusters[0], topic_name)
    return topic_name


def properties(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


def create(broker: Broker, topic: str) -> None:
    with Cluster("A", properties(broker)) as cluster:
        cluster.create_topics([NewTopic(topic, 2, -1, ())])


@contextmanager
def member(broker: Broker, group: str, topic: str, **settings: str) -> Iterator[Consumer]:
    """A consumer that has joined *group*; ``_`` in a key of *settings* stands for a dot."""
    consumer = Consumer(
        {
            **properties(broker),
            "group.id": group,
            "client.id": f"client-of-{group}",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    try:
        consumer.subscribe([topic])

        def has_joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(has_joined, 30)
        yield consumer
    finally:
        consumer.close()


def commit(broker: Broker, group: str, *offsets: KafkaTopicPartition) -> None:
    """Commit as a consumer does that assigns itself its partitions."""
    consumer = Consumer({**properties(broker), "group.id": group})
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_stable_while_it_has_members_and_empty_after(
    groups: Groups, clusters: Clusters, topic: str, until: Until, protocol: str
) -> None:
    group = f"{topic}-{protocol}"
    assert group not in groups.states()
    assert groups.members(group) == []

    with member(clusters[0], group, topic, group_protocol=protocol):
        until(lambda: groups.states().get(group) == "STABLE", 30)
        assert groups.members(group) == [f"client-of-{group} at 127.0.0.1"]

    until(lambda: groups.states().get(group) == "EMPTY", 30)
    assert groups.members(group) == []


def test_committed_offsets_come_with_their_metadata(
    groups: Groups, clusters: Clusters, topic: str
) -> None:
    noted, plain, never = (f"{topic}-{name}" for name in ("noted", "plain", "never"))
    strange = "caf\u00e9'}, t-0=OffsetAndMetadata{offset=1, leaderEpoch=null, metadata='"
    groups.commit(noted, {TopicPartition(topic, 1): Committed(7, strange)})
    commit(clusters[0], plain, KafkaTopicPartition(topic, 0, 0), KafkaTopicPartition(topic, 1, 3))

    assert groups.committed([noted, plain, never]) == {
        noted: {TopicPartition(topic, 1): Committed(7, strange)},
        plain: {
            TopicPartition(topic, 0): Committed(0, ""),
            TopicPartition(topic, 1): Committed(3, ""),
        },
        never: {},
    }
    assert groups.states()[noted] == "EMPTY"
    assert never not in groups.states()


def test_without_our_java_class_the_getters_say_the_same(
    groups: Groups, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.commit(topic, {TopicPartition(topic, 1): Committed(7, "noted")})
    state, committed = groups.states()[topic], groups.committed([topic, f"{topic}-never"])
    assert committed == {
        topic: {TopicPartition(topic, 1): Committed(7, "noted")},
        f"{topic}-never": {},
    }

    with monkeypatch.context() as patch:
        patch.setitem(vars(groups), "_calls", None)

        assert groups.states()[topic] == state
        assert groups.committed([topic, f"{topic}-never"]) == committed


def test_empty_requests_have_empty_results(groups: Groups, topic: str) -> None:
    groups.commit(topic, {})

    assert groups.committed([]) == {}
    assert topic not in groups.states()


def test_more_groups_than_concurrent_requests(groups: Groups, topic: str) -> None:
    expected = {
        f"{topic}-{number}": {TopicPartition(topic, number % 2): Committed(number, str(number))}
        for number in range(120)
    }
    for group, offsets in expected.items():
        groups.commit(group, offsets)

    assert groups.committed([*expected, *expected]) == expected
    states = groups.states()
    assert {states[group] for group in expected} == {"EMPTY"}


def test_a_commit_changes_only_the_given_partitions(
    groups: Groups, clusters: Clusters, topic: str, until: Until
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with member(clusters[0], topic, topic, enable_auto_commit="false") as consumer:
        consumer.commit(
            offsets=[KafkaTopicPartition(*first, 5, "old"), KafkaTopicPartition(*second, 6)],
            asynchronous=False,
        )
    until(lambda: groups.states()[topic] == "EMPTY", 30)

    groups.commit(topic, {first: Committed(2, "new")})

    assert groups.committed([topic]) == {
        topic: {first: Committed(2, "new"), second: Committed(6, "")}
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_offsets_of_an_active_group_cannot_be_changed(
    groups: Groups, clusters: Clusters, topic: str, protocol: str
) -> None:
    offsets = {TopicPartition(topic, number): Committed(1, "") for number in range(2)}

    with (
        member(clusters[0], topic, topic, group_protocol=protocol, enable_auto_commit="false"),
        pytest.raises(GroupActiveError) as failure,
    ):
        groups.commit(topic, offsets)

    text = str(failure.value)
    assert f"cluster A (bootstrap.servers={clusters[0].bootstrap})" in text
    assert (
        f"committing offsets of group {topic} failed: the group has members: client-of-{topic} at"
        in text
    )
    assert f"has members: client-of-{topic} at 127.0.0.1; stop its consumers" in text
    assert groups.committed([topic]) == {topic: {}}


def test_a_rebalancing_group_is_active(
    groups: Groups, clusters: Clusters, topic: str, until: Until
) -> None:
    with member(clusters[0], topic, topic):
        newcomer = Consumer({**properties(clusters[0]), "group.id": topic})
        try:
            newcomer.subscribe([topic])
            newcomer.poll(0.1)
            until(lambda: groups.states()[topic] == "PREPARING_REBALANCE", 30)

            with pytest.raises(GroupActiveError):
                groups.commit(topic, {TopicPartition(topic, 0): Committed(1, "")})
        finally:
            newcomer.close()


def test_an_offset_of_a_missing_partition_is_rejected(groups: Groups, topic: str) -> None:
    good = TopicPartition(topic, 0)
    bad = [TopicPartition(topic, 2), TopicPartition(f"{topic}-missing", 0)]

    for offsets in (bad, [good, *bad]):
        with pytest.raises(CallError) as failure:
            groups.commit(topic, {tp: Committed(1, "") for tp in offsets})

        assert failure.value.code == "UNKNOWN_TOPIC_OR_PARTITION"
        assert f"of group {topic} for {topic}-2 failed: This server" in str(failure.value)
        assert f"(rejected: {topic}-2, {topic}-missing-0)" in str(failure.value)

    assert groups.committed([topic]) == {topic: {good: Committed(1, "")}}


def test_a_cluster_that_cannot_be_reached(jvm: JVMView) -> None:
    servers = f"127.0.0.1:{free_port()}"
    groups = Groups(jvm, "X", {"bootstrap.servers": servers, "default.api.timeout.ms": "1500"})
    limit = Limit(8)

    for call, name in (
        (groups.states, "listing consumer groups"),
        (
            lambda: groups.committed(["g", "h"]),
            "reading the committed offsets of 2 groups",
        ),
        (lambda: groups.commit("g", {TopicPartition("t", 0): Committed(1, "")}), "of group g"),
        (lambda: groups.members("g"), "describing group"),
    ):
        with pytest.raises(CallError, match="connection refused; check that a broker") as failure:
            call()
        assert failure.value.code == "_TRANSPORT"
        assert f"cluster X (bootstrap.servers={servers}): " in str(failure.value)
        assert name in str(failure.value)
    if limit.is_over:
        raise Late("the four answers", limit)


def test_the_first_group_of_a_cluster_and_a_broker_that_stops(
    jvm: JVMView, broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    broker = Broker("C", tmp_path, broker_settings)
    try:
        broker.start()
        create(broker, topic_name)
        groups = Groups(jvm, "C", properties(broker) | {"default.api.timeout.ms": "5000"})
        groups.commit("first", {TopicPartition(topic_name, 0): Committed(1, "")})
        assert groups.states() == {"first": "EMPTY"}
        broker.kill()

        with pytest.raises(CallError, match="listing consumer groups failed"):
            groups.states()
    finally:
        broker.kill()
