"""Clusters and aliases: the state is of two clusters, whatever the file calls them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.brokers import Broker, BrokerSettings, running
from replication.errors import GuardError, IdentityError
from replication.kafka.cluster import Cluster
from replication.upkeep.prepare import look
from tests.support import remote_topics
from tests.support.doctored import look as look_again
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.stored import record_events
from tests.support.topics import assert_equal, copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture
def with_the_same_id(
    clusters: Clusters, broker_settings: BrokerSettings, tmp_path: Path
) -> Iterator[Broker]:
    """Another cluster than A, formatted with the id of A."""
    broker = Broker("twin", tmp_path / "twin", broker_settings)
    broker.cluster_id = clusters[0].cluster_id
    with running(broker):
        yield broker
        broker.kill()


def test_a_file_with_the_same_aliases_for_other_clusters_is_refused_before_it_changes_anything(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    state, others = tmp_path / "state", f"{topic_name}.*"
    fill(source, topic_name, 1, 100)
    fill(own_broker, topic_name, 1, 30)
    fill(own_broker, f"{topic_name}-2", 1, 30)
    RunningFlow(spark, state, flow_config(source, target, topic_name), "drain").join()
    both = f"{source.cluster_id}.*{own_broker.cluster_id}"

    with pytest.raises(IdentityError, match=both):
        RunningFlow(spark, state, flow_config(own_broker, target, others), "drain").join()
    shown = CliRunner().invoke(
        main, ["plan", str(write_config(tmp_path, (own_broker, target), others))]
    )

    assert shown.exit_code == 2
    assert "state.dir of its own" in shown.stderr
    with Cluster("B", {"bootstrap.servers": target.bootstrap}) as cluster:
        assert cluster.describe([f"A.{topic_name}-2"]) == {}
    shutil.rmtree(state / "clusters")  # as a state of an earlier version has none
    foreign = rf"none of its 1 topics is on .*{own_broker.cluster_id}: {topic_name}, of the id "
    with pytest.raises(IdentityError, match=foreign):
        RunningFlow(spark, state, flow_config(own_broker, target, others), "drain").join()
    shown = CliRunner().invoke(
        main, ["plan", str(write_config(tmp_path, (own_broker, target), others))]
    )
    assert shown.exit_code == 2
    assert "replication.source.cluster.id = " in shown.stderr
    code, rows = look_again(write_config(tmp_path, (own_broker, target), others))
    (of_state,) = (row for row in rows if row["what"] == f"state of {FLOW}")
    assert (code, of_state["verdict"]) == (2, "problem")
    assert "Either this file is of another cluster" in of_state["found"] + of_state["next_step"]
    shown = CliRunner().invoke(
        main, ["doctor", str(write_config(tmp_path, clusters, topic_name)), "--json"]
    )
    assert "does not name its clusters; topics of it are on A and B" in shown.stdout
    RunningFlow(spark, state, flow_config(source, target, topic_name), "drain").join()
    assert_equal(clusters, topic_name)
    assert record_events(state) == []


def test_a_cluster_that_was_replaced_on_purpose_is_accepted_by_its_id(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    fill(own_broker, f"{topic_name}-2", 1, 30)
    RunningFlow(spark, tmp_path, flow_config(source, target, topic_name), "drain").join()
    accepting = {f"{FLOW}.replication.source.cluster.id": own_broker.cluster_id}
    config = flow_config(own_broker, target, f"{topic_name}.*", accepting)

    RunningFlow(spark, tmp_path, config, "drain").join()

    assert copied(clusters, f"{topic_name}-2") == 30
    wrong = flow_config(source, target, topic_name, accepting)
    with pytest.raises(IdentityError, match="leads to the Kafka cluster with the id"):
        RunningFlow(spark, tmp_path, wrong, "drain").join()
    without = flow_config(own_broker, target, f"{topic_name}.*")  # its state is of that cluster now
    RunningFlow(spark, tmp_path, without, "drain").join()


def test_two_clusters_that_share_their_id_are_two_with_a_warning(
    clusters: Clusters, with_the_same_id: Broker, topic_name: str
) -> None:
    for broker in (clusters[0], with_the_same_id):
        fill(broker, topic_name, 1, 1)
    config = remote_topics.flow_config(topic_name)
    with (
        Cluster("A", {"bootstrap.servers": clusters[0].bootstrap}) as source,
        Cluster("B", {"bootstrap.servers": with_the_same_id.bootstrap}) as twin,
        Cluster("B", {"bootstrap.servers": clusters[0].bootstrap}) as same,
    ):
        plan = look(config, source, twin)
        with pytest.raises(GuardError, match="are the same Kafka cluster"):
            look(config, source, same)

    assert f"the same cluster id {clusters[0].cluster_id}" in plan.shared_id
    assert plan.topics == {topic_name: f"A.{topic_name}"}
