"""A user's own policy and filters, Java classes as for MirrorMaker 2, name and choose topics."""

import json
from pathlib import Path

import pytest

from replication.kafka.cluster import Cluster
from replication.kafka.jvm import CLIENT_JARS
from replication.model import TopicPartition
from tests.support.commands import replication, spark_submit
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.own_classes import interface_jars, jar_of_own_classes
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(600)]

OWN = "replication.tests.OwnPolicy"
FILTER = "replication.tests.OwnFilter"


@pytest.fixture(scope="module")
def own_jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return jar_of_own_classes(tmp_path_factory.mktemp("own"))


def test_a_policy_and_filters_of_the_users_name_and_choose_topics(
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    own_jar: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(clusters[0], f"{topic_name}-taken", 1, 100)
    fill(clusters[0], f"{topic_name}-left", 1, 10)
    more = {
        "replication.policy.class": OWN,
        "own.policy.middle": "-from-",
        "topic.filter.class": FILTER,
        "group.filter.class": FILTER,
        "config.property.filter.class": FILTER,
        "own.filter.ending": f"{topic_name}-taken",
    }
    config = write_config(tmp_path, clusters, "nothing-by-this-list", more)

    missing = replication("validate", config)
    monkeypatch.setenv(CLIENT_JARS, str(own_jar))
    alone = replication("validate", config)
    monkeypatch.setenv(CLIENT_JARS, ",".join(map(str, (own_jar, *interface_jars()))))
    valid = replication("validate", config)
    plan = replication("plan", config, "--json")
    drain = spark_submit(config, "--mode", "drain")

    assert missing.returncode == 2
    assert f"replication.policy.class: {OWN}: no such class; put the jar" in missing.stderr
    assert alone.returncode == 2
    assert "connect-mirror-client" in alone.stderr
    assert valid.returncode == 0, valid.stderr
    (flow,) = json.loads(plan.stdout)["flows"]
    remote = f"{topic_name}-taken-from-A"
    assert {topic["remote_topic"] for topic in flow["topics"]} == {remote}
    assert drain.returncode == 0, drain.stdout + drain.stderr
    with Cluster("B", {"bootstrap.servers": clusters[1].bootstrap}) as target:
        assert target.log_ends([TopicPartition(remote, 0)]) == {TopicPartition(remote, 0): 100}


def test_a_class_that_cannot_be_made_is_an_error_before_the_start(
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    own_jar: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CLIENT_JARS, ",".join(map(str, (own_jar, *interface_jars()))))
    config = write_config(tmp_path, clusters, topic_name, {"replication.policy.class": OWN})

    start = spark_submit(config, "--mode", "drain")

    assert start.returncode == 2
    assert f"{OWN}: cannot be made: java.lang.IllegalArgumentException: own.policy.middle" in (
        start.stdout + start.stderr
    )
