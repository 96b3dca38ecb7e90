"""Preparing the target for a flow, between two real clusters."""

import logging
import uuid
from collections.abc import Iterable

import pytest
from confluent_kafka.admin import AdminClient

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker
from replication.demo.ports import free_port
from replication.errors import ClusterError, GuardError
from replication.flows.replicate.prepare import SizeLimit, look, prepare_topics, size_limits
from replication.kafka.cluster import Cluster
from replication.model import NewTopic, Topic, TopicPartition

pytestmark = pytest.mark.cluster

Clusters = tuple[Broker, Broker]
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
    """A word of its own for every test: other tests' topics do not match it."""
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


def test_what_is_missing_is_made_once(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, f"{name}-a", 3, max_message_bytes="3000000")
    create(source, f"{name}-b", 1)
    config = flow_config(f"{name}.*", replication_factor="1")

    plan = prepare_topics(config, source, target)

    remote = target.describe([f"A.{name}-a", f"A.{name}-b"])
    assert {it.name: it.partitions for it in remote.values()} == {
        f"A.{name}-a": 3, f"A.{name}-b": 1
    }  # fmt: skip
    assert plan.remote_ids == {it.name: it.topic_id for it in remote.values()}
    assert plan.partitions == (
        *(TopicPartition(f"{name}-a", number) for number in range(3)),
        TopicPartition(f"{name}-b", 0),
    )
    again = prepare_topics(config, source, target)
    assert (again.create, again.grow, again.fingerprint) == ((), {}, plan.fingerprint)


def test_a_copy_takes_the_large_records_of_its_topic(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, f"{name}-large", max_message_bytes="3000000")
    create(source, f"{name}-usual")
    default = source.max_message_bytes([f"{name}-usual"])[f"{name}-usual"]

    plan = prepare_topics(flow_config(f"{name}.*", replication_factor="-1"), source, target)

    key = "max.message.bytes"
    large, usual = f"A.{name}-large", f"A.{name}-usual"
    settings = target.topic_config([large, usual], [key])
    assert (settings[large][key].value, settings[large][key].is_override) == ("3000000", True)
    assert not settings[usual][key].is_override
    assert size_limits(plan, source, target) == (
        SizeLimit(f"{name}-large", large, 3_000_000, 3_000_000),
        SizeLimit(f"{name}-usual", usual, default, default),
    )


def test_a_lower_limit_on_the_target_is_said(
    sides: Sides, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = sides
    create(source, name, max_message_bytes="3000000")
    create(target, f"A.{name}", max_message_bytes="1000")
    plan = prepare_topics(flow_config(name), source, target)

    with caplog.at_level(logging.WARNING):
        (limit,) = size_limits(plan, source, target)

    assert limit.is_lower_on_target
    assert "up to 3000000 bytes" in caplog.text
    assert "only up to 1000" in caplog.text


def test_a_remote_topic_made_by_somebody_else_grows(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, 3)
    create(target, f"A.{name}", 1)
    config = flow_config(name)
    assert look(config, source, target).grow == {f"A.{name}": 3}

    plan = prepare_topics(config, source, target)

    assert target.describe([f"A.{name}"])[f"A.{name}"].partitions == 3
    assert len(plan.partitions) == 3


class OvertakenCluster(Cluster):
    """A real cluster on which somebody else creates the topic, smaller, just before we do."""

    def create_topics(self, topics: Iterable[NewTopic]) -> dict[str, Topic]:
        """First theirs, then ours."""
        wanted = tuple(topics)
        super().create_topics([NewTopic(it.name, 1, -1) for it in wanted])
        return super().create_topics(wanted)


def test_a_topic_that_somebody_else_creates_smaller_meanwhile_grows(
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


class ForgetfulCluster(Cluster):
    """A real cluster that lists a topic which is deleted before it can be described."""

    def topic_names(self) -> set[str]:
        """One more than there are."""
        return super().topic_names() | {"topics-deleted-meanwhile"}


def test_a_topic_deleted_between_list_and_describe_is_not_there(sides: Sides) -> None:
    source, target = sides
    forgetful = ForgetfulCluster("A", {"bootstrap.servers": source.servers})

    plan = prepare_topics(flow_config("topics-deleted.*"), forgetful, target)

    assert plan.topics == {}
    assert target.describe(["A.topics-deleted-meanwhile"]) == {}


def test_nothing_matches(sides: Sides) -> None:
    plan = prepare_topics(flow_config("topics-nothing"), *sides)

    assert (plan.topics, plan.partitions) == ({}, ())


def test_looking_makes_nothing(sides: Sides, name: str) -> None:
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


def test_more_replicas_than_brokers_are_refused(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name)

    with pytest.raises(ClusterError, match=r"A\.topics-.*replication\.factor"):
        prepare_topics(flow_config(name, replication_factor="3"), source, target)


def test_an_unreachable_target_is_named(sides: Sides) -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    away = Cluster("B", {"bootstrap.servers": bootstrap, "request.timeout.ms": "1500"})

    with pytest.raises(ClusterError, match=rf"cluster B \(bootstrap.servers={bootstrap}\)"):
        prepare_topics(flow_config(".*"), sides[0], away)
