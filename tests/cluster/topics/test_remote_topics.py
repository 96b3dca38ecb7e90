"""Before records are copied, their remote topics are created or grown, on two real clusters."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from replication.demo.brokers import free_port
from replication.errors import ClusterError, GuardError
from replication.kafka.cluster import Cluster
from replication.model import NewTopic, Topic, TopicPartition
from replication.upkeep.prepare import look, prepare_topics
from tests.support.local import Clusters
from tests.support.remote_topics import Sides, create, flow_config
from tests.support.topics import delete_topic

pytestmark = pytest.mark.cluster


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
    assert plan.made == {f"A.{name}-a", f"A.{name}-b"}
    again = prepare_topics(config, source, target)
    assert (again.create, again.grow, again.fingerprint) == ((), {}, plan.fingerprint)
    assert again.made == frozenset()


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
        self,
        topics: Iterable[NewTopic],
        *arguments: Any,  # noqa: ANN401 - they are passed on
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

    plan = prepare_topics(flow_config(name, replication_factor="1"), source, overtaken)

    assert plan.made == frozenset()  # so that somebody asks what the other program has written
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
    delete_topic(clusters[0], f"{name}-b")
    second = prepare_topics(config, source, target)

    assert [str(tp) for tp in second.partitions] == [f"{name}-a-0", f"{name}-a-1", f"{name}-c-0"]
    assert second.fingerprint != first.fingerprint
    assert f"A.{name}-b" in target.describe([f"A.{name}-b"]), "deletions are not copied"


def test_a_known_topic_is_gone_only_if_the_source_says_so(
    sides: Sides, clusters: Clusters, name: str
) -> None:
    source, target = sides
    names = {f"{name}-{kind}" for kind in ("kept", "waits", "deleted", "both", "other")}
    for topic in names:
        create(source, topic)
    for kind in ("deleted", "both", "other"):
        delete_topic(clusters[0], f"{name}-{kind}")
    config = flow_config(f"{name}.*", topics_exclude=f"{name}-other")

    plan = look(config, source, target, {f"{name}-waits", f"{name}-both"}, names)

    assert plan.topics.keys() == {f"{name}-kept"}
    assert plan.gone == {f"{name}-deleted", f"{name}-both"}


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
