"""Preparing the target for a flow, between two real clusters."""

import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.ports import free_port
from replication.errors import ClusterError, GuardError
from replication.flows.replicate.prepare import look, prepare_topics, topic_warnings
from replication.kafka.cluster import Cluster
from replication.model import NewTopic, Topic, TopicPartition, TopicSetting
from tests.support.local import Clusters
from tests.support.topic_settings import jars_with, overrides

pytestmark = pytest.mark.cluster

Sides = tuple[Cluster, Cluster]


@pytest.fixture
def sides(clusters: Clusters) -> Sides:
    a, b = (
        Cluster(alias, {"bootstrap.servers": broker.bootstrap})
        for alias, broker in zip("AB", clusters, strict=True)
    )
    return a, b


@pytest.fixture
def name() -> str:
    """A prefix of topic names that no other test has."""
    return f"topics-{uuid.uuid4().hex[:8]}"


def flow_config(topics: str, **settings: str) -> FlowConfig:
    """The flow A->B; ``_`` in a key stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    flat = {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "A->B.enabled": "true",
        "heartbeats.replication.enabled": "false",
        "topics": topics,
        **keys,
    }
    return parse("test", flat, default_state_dir="file:///state").flows[0]


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic; ``_`` in a key of *configs* stands for a dot."""
    settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
    cluster.create_topics([NewTopic(name, partitions, -1, settings)])


def test_missing_topics_are_created_once(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, f"{name}-a", 3, max_message_bytes="3000000")
    create(source, f"{name}-b", 1)
    config = flow_config(f"{name}.*", replication_factor="1")

    plan = prepare_topics(config, source, target)

    remote = target.describe([f"A.{name}-a", f"A.{name}-b"])
    assert {topic.name: topic.partitions for topic in remote.values()} == {
        f"A.{name}-a": 3, f"A.{name}-b": 1
    }  # fmt: skip
    assert plan.remote_ids == {topic.name: topic.topic_id for topic in remote.values()}
    assert plan.partitions == (
        *(TopicPartition(f"{name}-a", number) for number in range(3)),
        TopicPartition(f"{name}-b", 0),
    )
    again = prepare_topics(config, source, target)
    assert (again.create, again.grow, again.fingerprint) == ((), {}, plan.fingerprint)


SETTINGS = {
    "max_message_bytes": "3000000",
    "retention_ms": "-1",
    "cleanup_policy": "compact",
    "min_insync_replicas": "1",
}


def test_a_remote_topic_is_created_with_the_settings_of_its_source_topic(
    sides: Sides, name: str
) -> None:
    source, target = sides
    create(source, f"{name}-set", 1, **SETTINGS)
    create(source, f"{name}-usual")

    plan = prepare_topics(flow_config(f"{name}.*", replication_factor="-1"), source, target)

    assert overrides(target, f"A.{name}-set") == {
        "max.message.bytes": "3000000",
        "retention.ms": "-1",
        "cleanup.policy": "compact",
    }
    assert overrides(target, f"A.{name}-usual") == {}
    assert topic_warnings(plan, source, target) == ()


def test_excluded_settings_are_left_to_the_target(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, 1, **SETTINGS)

    config = flow_config(name, config_properties_exclude=r"retention\..*, cleanup.policy")
    prepare_topics(replace(config, replication_factor=-1), source, target)

    assert overrides(target, f"A.{name}") == {
        "max.message.bytes": "3000000",
        "min.insync.replicas": "1",
    }


def test_the_defaults_of_the_source_are_copied_if_asked_for(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, retention_bytes="5000000")

    config = flow_config(name, use_defaults_from="source", replication_factor="-1")
    prepare_topics(config, source, target)

    copied = overrides(target, f"A.{name}")
    assert copied["retention.bytes"] == "5000000"
    assert copied["cleanup.policy"] == "delete"
    assert "retention.ms" not in copied, "it is in the source's server.properties"


class NewerCluster(Cluster):
    """A real cluster with two settings more than the target's version knows."""

    def topic_config(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """All settings, and two that every topic sets."""
        newer = {"newer.a": TopicSetting("1", "topic"), "newer.b": TopicSetting("2", "topic")}
        return {name: own | newer for name, own in super().topic_config(topics).items()}


def test_settings_that_the_target_rejects_are_left_out_and_logged_once(
    sides: Sides, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = sides
    create(source, f"{name}-a", retention_ms="-1")
    create(source, f"{name}-b")
    newer = NewerCluster("A", {"bootstrap.servers": source.servers})
    config = flow_config(f"{name}.*", replication_factor="-1")

    with caplog.at_level(logging.WARNING):
        prepare_topics(config, newer, target)
        prepare_topics(config, newer, target)

    assert overrides(target, f"A.{name}-a") == {"retention.ms": "-1"}
    assert overrides(target, f"A.{name}-b") == {}
    assert sorted(line.partition(" text=")[0] for line in caplog.messages) == [
        f"flow=A->B event=setting_rejected topic=A.{name}-{topic} key=newer.{key} value={value}"
        for topic in "ab"
        for key, value in (("a", "1"), ("b", "2"))
    ]


@pytest.fixture(scope="module")
def cluster_with_policy(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A target whose creation policy is tests/java/LimitRetention.java."""
    folder = tmp_path_factory.mktemp("policy")
    jars = jars_with("LimitRetention", broker_settings.jars, folder)
    policy = {"create.topic.policy.class.name": "replication.tests.LimitRetention"}
    broker = Broker("B", folder / "B", BrokerSettings(jars=jars, properties=policy))
    broker.start()
    try:
        yield Cluster("B", {"bootstrap.servers": broker.bootstrap})
    finally:
        broker.stop()


def test_a_policy_of_the_target_does_not_prevent_a_topic(
    sides: Sides, cluster_with_policy: Cluster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = sides[0], cluster_with_policy
    limits = {"max_message_bytes": "3000000", "cleanup_policy": "compact"}
    create(source, f"{name}-named", 1, retention_ms="-1", **limits)
    create(source, f"{name}-unnamed", 1, segment_ms="60000", **limits)

    with caplog.at_level(logging.WARNING):
        prepare_topics(flow_config(f"{name}.*", replication_factor="1"), source, target)

    assert overrides(target, f"A.{name}-named") == {
        "max.message.bytes": "3000000",
        "cleanup.policy": "compact",
    }
    assert overrides(target, f"A.{name}-unnamed") == {"max.message.bytes": "3000000"}
    assert [line.partition(" text=")[0].partition(name)[2] for line in caplog.messages] == [
        "-named key=retention.ms value=-1",
        "-unnamed key=cleanup.policy value=compact",
        "-unnamed key=segment.ms value=60000",
    ]
    assert "set a limit with retention.ms" in caplog.text
    assert "too many small files" in caplog.text


def test_a_target_that_keeps_records_for_less_time_is_named(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, max_message_bytes="3000000", cleanup_policy="compact")
    create(target, f"A.{name}", max_message_bytes="1000", retention_bytes="1000000")

    (warning,) = topic_warnings(look(flow_config(name), source, target), source, target)

    assert warning.startswith(f"topic A.{name} on B rejects or deletes records that {name} on A")
    for phrase in (
        "max.message.bytes=1000 (3000000 on the source)",
        "cleanup.policy=delete (compact on the source)",
        "retention.bytes=1000000 (-1 on the source)",
    ):
        assert phrase in warning


def test_a_remote_topic_that_already_exists_gets_the_missing_partitions(
    sides: Sides, name: str
) -> None:
    source, target = sides
    create(source, name, 3)
    create(target, f"A.{name}", 1)
    config = flow_config(name)
    assert look(config, source, target).grow == {f"A.{name}": 3}

    plan = prepare_topics(config, source, target)

    assert target.describe([f"A.{name}"])[f"A.{name}"].partitions == 3
    assert len(plan.partitions) == 3


class OvertakenCluster(Cluster):
    """A real cluster on which another program creates the topic, smaller, just before we do."""

    def create_topics(
        self, topics: Iterable[NewTopic], *arguments: Callable[[NewTopic, str], NewTopic | None]
    ) -> dict[str, Topic]:
        """Creates the smaller topics first, then ours."""
        wanted = tuple(topics)
        super().create_topics([NewTopic(topic.name, 1, -1) for topic in wanted])
        return super().create_topics(wanted, *arguments)


def test_a_topic_that_another_program_creates_smaller_meanwhile_grows(
    sides: Sides, name: str
) -> None:
    source, target = sides
    create(source, name, 3)
    overtaken = OvertakenCluster("B", {"bootstrap.servers": target.servers})

    prepare_topics(flow_config(name, replication_factor="1"), source, overtaken)

    assert target.describe([f"A.{name}"])[f"A.{name}"].partitions == 3


def test_new_topics_and_partitions_are_found_and_deleted_ones_are_not(
    sides: Sides, clusters: Clusters, name: str
) -> None:
    source, target = sides
    config = flow_config(f"{name}.*", replication_factor="1")
    create(source, f"{name}-a", 1)
    create(source, f"{name}-b", 1)
    first = prepare_topics(config, source, target)

    source.create_partitions({f"{name}-a": 2})
    create(source, f"{name}-c", 1)
    admin = AdminClient({"bootstrap.servers": clusters[0].bootstrap})
    admin.delete_topics([f"{name}-b"])[f"{name}-b"].result(30)
    second = prepare_topics(config, source, target)

    assert [str(tp) for tp in second.partitions] == [f"{name}-a-0", f"{name}-a-1", f"{name}-c-0"]
    assert second.fingerprint != first.fingerprint
    assert f"A.{name}-b" in target.describe([f"A.{name}-b"]), "deletions are not copied"


class InconsistentCluster(Cluster):
    """A real cluster whose first list has a topic that no broker can describe yet or any more.

    Args:
        servers: Its bootstrap.servers.
        topic: The topic.
        before_the_second_list: Called when the topics are listed again.
    """

    def __init__(
        self, servers: str, topic: str, before_the_second_list: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__("A", {"bootstrap.servers": servers})
        self._steps = iter((lambda: {topic}, before_the_second_list))

    def topic_names(self) -> set[str]:
        """All names; the first time, the topic as well."""
        step = next(self._steps, lambda: None)
        return (step() or set()) | super().topic_names()


def test_a_topic_deleted_between_list_and_describe_is_ignored(sides: Sides, name: str) -> None:
    source, target = sides
    inconsistent = InconsistentCluster(source.servers, name)

    plan = prepare_topics(flow_config(name), inconsistent, target)

    assert plan.topics == {}
    assert target.describe([f"A.{name}"]) == {}


def test_a_new_topic_that_not_every_broker_knows_is_replicated(sides: Sides, name: str) -> None:
    source, target = sides
    inconsistent = InconsistentCluster(source.servers, name, lambda: create(source, name, 2))

    plan = prepare_topics(flow_config(name, replication_factor="1"), inconsistent, target)

    assert plan.topics == {name: f"A.{name}"}
    assert target.describe([f"A.{name}"])[f"A.{name}"].partitions == 2


def test_a_pattern_without_a_match_gives_an_empty_plan(sides: Sides) -> None:
    plan = prepare_topics(flow_config("topics-nothing"), *sides)

    assert (plan.topics, plan.partitions) == ({}, ())


def test_a_plan_creates_nothing(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, 2)

    plan = look(flow_config(name, replication_factor="1"), source, target)

    assert plan.create == (NewTopic(f"A.{name}", 2, 1),)
    assert target.describe([f"A.{name}"]) == {}


def test_a_flow_within_one_cluster_is_refused(sides: Sides) -> None:
    source, _ = sides
    other_alias = Cluster(
        "B", {"bootstrap.servers": source.servers.replace("127.0.0.1", "localhost")}
    )

    with pytest.raises(GuardError, match=r"A .* and B .* are the same Kafka cluster"):
        prepare_topics(flow_config(".*"), source, other_alias)


def test_more_replicas_than_brokers_are_rejected(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name)

    plan = prepare_topics(flow_config(name, replication_factor="3"), source, target)

    assert (plan.topics, plan.partitions) == ({}, ())
    assert re.search(r"A\.topics-.*replication\.factor", plan.rejected[name])


def test_an_unreachable_target_is_named(sides: Sides) -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    away = Cluster("B", {"bootstrap.servers": bootstrap, "request.timeout.ms": "1500"})

    with pytest.raises(ClusterError, match=rf"cluster B \(bootstrap.servers={bootstrap}\)"):
        prepare_topics(flow_config(".*"), sides[0], away)
