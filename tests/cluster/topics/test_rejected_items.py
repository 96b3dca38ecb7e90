"""One group or topic that a cluster rejects holds up no other, and is reported once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from replication.app.background import background_metadata, checkpoints_once
from replication.control.failover import commit_moves
from replication.control.groups import FlowView, group_status
from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import create_topic
from replication.errors import ClusterError, StateError
from replication.flows.checkpoints import Checkpoints
from replication.flows.metadata import MetadataSync
from replication.groups.csv_file import GroupOffset
from replication.groups.positions import Move, SyncAnswer
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from replication.spark.session import jvm_of
from replication.state.tables import Tables, reader_of
from tests.support.checkpoints import config_of, emitted, replicated
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.groups import commit, committed
from tests.support.java_tools import share_group
from tests.support.local import Clusters, Until
from tests.support.stored import stored
from tests.support.topics import delete_topic, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SYNC = {"sync.group.offsets.enabled": "true"}
MOST_METADATA = 32_000


@pytest.fixture(scope="module")
def odd(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that takes longer metadata than others, and deletes no topic."""
    own = {"offset.metadata.max.bytes": str(MOST_METADATA), "delete.topic.enable": "false"}
    settings = replace(broker_settings, properties={**broker_settings.properties, **own})
    broker = Broker("O", tmp_path_factory.mktemp("odd"), settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def test_groups_that_the_target_rejects_hold_up_no_other(
    spark: SparkSession, clusters: Clusters, odd: Broker, tmp_path: Path, topic_name: str
) -> None:
    config = config_of((odd, clusters[1]), topic_name, SYNC, unique_flow())
    small = {"cleanup.policy": "compact", "max.message.bytes": "20000"}
    checkpoints = config.policy.checkpoints_topic(config.flow.source)
    create_topic(clusters[1].bootstrap, checkpoints, 1, small)
    fill(odd, topic_name, 1, 100)
    tp, remote = (
        TopicPartition(topic_name, 0),
        TopicPartition(f"{config.flow.source}.{topic_name}", 0),
    )
    sizes = {"a-good": 1, "large": MOST_METADATA, "long": 6000, "shared": 1, "z-good": 1}
    groups = {name: f"g-{topic_name}-{name}" for name in sizes}
    for name, group in groups.items():
        commit(odd, group, {tp: Committed(60, "x" * sizes[name])})
    context = replicated(spark, tmp_path, replace(config, mode="drain"))
    share_group(clusters[1].bootstrap, remote.topic, groups["shared"])
    state = reader_of(context.tables)
    view = FlowView(
        config,
        context.source,
        context.target,
        state.offsets(config.flow),
        lambda cluster: Groups(context.jvm, cluster.alias, cluster.admin),
        lambda keys: state.newest("events", config.flow, keys, ["at"]),
    )

    def answers() -> dict[str, SyncAnswer]:
        found = group_status(view, config.groups.accepts).statuses
        names = {group: name for name, group in groups.items()}
        return {names[status.position.group]: status.sync for status in found}

    checkpoints_once(context, "mirror")  # as a drain does at its end
    checkpoints_once(context, "mirror")
    standing = Checkpoints(context)
    standing.round()
    standing.round()
    standing.finish()

    refused = answers()
    commit(odd, groups["long"], {tp: Committed(60, "short")})
    checkpoints_once(context, "mirror")

    assert {name: answer.code for name, answer in refused.items()} == {
        name: "in-step" if name.endswith("good") else "refused" for name in sizes
    }
    assert "a group of this name is there" in refused["shared"].text
    assert "does not exist" not in refused["shared"].text
    assert answers()["long"].code == "in-step"
    (accepted,) = stored(context.tables, "events", "kind = 'group-accepted'")
    assert (accepted.group, accepted.cluster) == (groups["long"], config.flow.target)
    for name in ("a-good", "z-good"):
        assert committed(clusters[1], groups[name])[remote].offset == 60
    assert committed(clusters[1], groups["shared"]) == {}
    assert sorted(group for group, _ in emitted(context)) == [
        groups["a-good"], groups["long"], groups["shared"], groups["z-good"]
    ]  # fmt: skip
    rows = stored(context.tables, "checkpoints")
    assert {row.group for row in rows} == {group for group, _ in emitted(context)}
    events = stored(context.tables, "events", "kind = 'group-rejected'")
    assert sorted(row.group for row in events) == [
        groups["large"], groups["large"], groups["long"], groups["shared"]
    ]  # fmt: skip
    assert all("groups.exclude" in row.text for row in events)


def test_offsets_of_a_file_are_committed_for_all_groups_but_the_rejected_one(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    create_topic(clusters[1].bootstrap, topic_name, 1)
    tp = TopicPartition(topic_name, 0)
    there, gone = f"g-{topic_name}-b", TopicPartition(f"{topic_name}-missing", 0)
    moves = [
        Move(GroupOffset(f"g-{topic_name}-a", gone, 0), None, ""),
        Move(GroupOffset(there, tp, 0), None, ""),
    ]
    jvm = jvm_of(spark)
    with (
        Groups(jvm, "B", {"bootstrap.servers": clusters[1].bootstrap}) as groups,
        pytest.raises(ClusterError, match=r"(?s)1 of 2 groups are not moved:.*-missing-0"),
    ):
        commit_moves(groups, moves)

    assert committed(clusters[1], there) == {tp: Committed(0)}


def test_a_deletion_that_the_target_rejects_holds_up_no_other(
    spark: SparkSession,
    clusters: Clusters,
    odd: Broker,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    settings = {
        "replication.deletions.enabled": "true",
        "replication.deletions.grace.seconds": "0",
        "sync.topic.acls.enabled": "true",
    }
    config = flow_config(clusters[0], odd, f"{topic_name}.*", settings)
    for suffix in ("a", "b", "kept"):
        fill(clusters[0], f"{topic_name}-{suffix}", 1, 1)
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()
    for suffix in ("a", "b"):
        delete_topic(clusters[0], f"{topic_name}-{suffix}")
    until(lambda: f"{topic_name}-b" not in flow.context.source.topic_names(), 10)
    (tmp_path / "topic_acls").write_text("no table")

    sync = MetadataSync(flow.context)
    for _ in range(3):
        assert "topic_acls" in str(sync.round())

    assert kinds_of_topics(Tables(spark, tmp_path.as_uri())) == [
        ("source-topic-deleted", f"{topic_name}-a"),
        ("source-topic-deleted", f"{topic_name}-b"),
        ("deletion-rejected", f"{topic_name}-a"),
        ("deletion-rejected", f"{topic_name}-b"),
    ]
    copied = Event()
    with (  # raised behind the block
        pytest.raises(StateError, match="topic_acls"),
        background_metadata(flow.context, "mirror", Event()),
    ):
        copied.set()
    assert copied.is_set()
