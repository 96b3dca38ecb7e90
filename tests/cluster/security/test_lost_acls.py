"""A flow whose user loses an ACL: its topic is set aside, all others go on, and it rejoins."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster, Operation
from replication.upkeep.prepare import look
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, mirror_config
from tests.support.least_privilege import Strict, grant, grant_needed, line_for, revoke
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, fill, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LEASES = line_for("Read", "group", "__replication-lease.", "prefixed")


@pytest.fixture
def topics(strict: Strict, topic_name: str) -> tuple[str, str]:
    """Two topics of 100 records on the source; the ACL of the second one will be lost."""
    names = (f"{topic_name}-kept", f"{topic_name}-lost-1")
    for name in names:
        fill(strict[0].broker, name, 1, 100)
    return names


@pytest.fixture
def config(strict: Strict, topics: tuple[str, str]) -> Iterator[FlowConfig]:
    """A flow of these topics, whose user has just the ACLs that it needs."""
    properties = {
        f"{alias}.{key}": value
        for alias, side in zip("AB", strict, strict=True)
        for key, value in side.client("SCRAM").items()
    }
    names = ", ".join(topics)
    whole = mirror_config(strict[0].broker, strict[1].broker, names, properties)
    grant_needed(strict, whole)
    yield whole.flows[0]
    grant(strict[1].broker, LEASES)


@pytest.mark.parametrize(
    ("side", "operation"),
    [pytest.param(0, "Read", id="read"), pytest.param(1, "Write", id="write")],
)
def test_a_topic_whose_acl_is_lost_is_set_aside_until_it_is_granted_again(
    spark: SparkSession,
    strict: Strict,
    config: FlowConfig,
    topics: tuple[str, str],
    tmp_path: Path,
    side: int,
    operation: str,
) -> None:
    clusters, (kept, lost) = (strict[0].broker, strict[1].broker), topics
    line = line_for(operation, "topic", f"A.{lost}" if side else lost)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, kept) + copied(clusters, lost) >= 200)

    revoke(clusters[side], line)
    send(clusters[0], lost, 1, 50)
    flow.until(lambda: ("set-aside", lost) in kinds_of_topics(flow.tables))
    send(clusters[0], kept, 1, 100)
    flow.until(lambda: copied(clusters, kept) >= 200)
    copied_meanwhile = copied(clusters, lost)
    grant(clusters[side], line)
    flow.until(lambda: ("rejoined", lost) in kinds_of_topics(flow.tables), 120)
    flow.until(lambda: copied(clusters, lost) >= 150)
    flow.stop()

    assert copied_meanwhile == 100
    assert_equal(clusters, kept, lost)
    *aside, rejoined = stored(flow.tables, "events", "kind <> 'restarted'")
    assert (rejoined.kind, rejoined.topic) == ("rejoined", lost)
    # Describing and reading the topic are rejected in turn: each reason is an event.
    assert {(event.kind, event.topic) for event in aside} == {("set-aside", lost)}
    texts = "\n".join(event.text for event in aside)
    assert f"kafka-acls --bootstrap-server {strict[side].servers('SCRAM')} --add" in texts
    assert f"--operation {operation} --topic '{'A.' * side}{lost}'" in texts


def test_a_topic_that_is_granted_during_a_look_is_not_taken_for_deleted(
    strict: Strict,
    config: FlowConfig,
    topics: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, (kept, lost) = strict[0].broker, topics
    line, ask = line_for("Read", "topic", lost), Cluster.denied
    with (
        Cluster("A", config.source.admin) as source,
        Cluster("B", config.target.admin) as target,
    ):

        def grant_and_ask(cluster: Cluster, operation: Operation, names: list[str]) -> object:
            if lost in names:
                grant(broker, line)
                wait_until(lambda: lost in source.topic_names(), 60)
            return ask(cluster, operation, names)

        revoke(broker, line)
        wait_until(lambda: lost not in source.topic_names(), 60)
        monkeypatch.setattr(Cluster, "denied", grant_and_ask)

        assert set(look(config, source, target, known=topics).topics) == {kept, lost}


def test_a_drain_copies_the_topics_that_it_may_and_fails_for_the_others(
    spark: SparkSession,
    strict: Strict,
    config: FlowConfig,
    topics: tuple[str, str],
    tmp_path: Path,
) -> None:
    clusters, (kept, lost) = (strict[0].broker, strict[1].broker), topics
    revoke(clusters[1], line_for("Write", "topic", f"A.{lost}"))

    with pytest.raises(ClusterError, match=f"--operation Write --topic 'A.{lost}'"):
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert copied(clusters, kept) == 100


def test_a_flow_that_may_no_longer_hold_its_lease_ends(
    spark: SparkSession,
    strict: Strict,
    config: FlowConfig,
    topics: tuple[str, str],
    tmp_path: Path,
) -> None:
    clusters = (strict[0].broker, strict[1].broker)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topics[0]) >= 100)

    revoke(clusters[1], LEASES)

    with pytest.raises(
        ClusterError,
        match=r"allow Read: kafka-acls .* --operation Read --group '__replication-lease",
    ):
        flow.join()


def test_the_cluster_says_what_its_user_may_not_do(
    strict: Strict, config: FlowConfig, topics: tuple[str, str]
) -> None:
    revoke(strict[0].broker, line_for("Read", "topic", topics[1]))

    with Cluster("A", config.source.admin) as source:
        denied = source.denied("READ", [*topics, f"{topics[0]}-unknown"])
        assert set(source.denied("WRITE", topics)) == set(topics)

    assert set(denied) == {topics[1], f"{topics[0]}-unknown"}  # Kafka hides what does not exist
    with Cluster("A", {"bootstrap.servers": strict[0].broker.bootstrap}) as source:
        assert source.denied("READ", [*topics, "unknown"]) == {}
