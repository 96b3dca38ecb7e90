"""Remote topics are created with the settings of their source topics that the target takes."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from replication.demo.brokers import Broker, BrokerSettings
from replication.kafka.cluster import Cluster
from replication.model import TopicSetting
from replication.upkeep.prepare import look, prepare_topics, topic_warnings
from tests.support.remote_topics import Sides, create, flow_config
from tests.support.topic_settings import jars_with, overrides

pytestmark = pytest.mark.cluster

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


class TieredCluster(Cluster):
    """A real cluster with tiered storage, which the target lacks."""

    def topic_config(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """All settings, and the one of a tiered topic."""
        tiered = {"remote.storage.enable": TopicSetting("true", "topic")}
        return {name: own | tiered for name, own in super().topic_config(topics).items()}


@pytest.mark.parametrize("client", ["librdkafka", "Java"])
@pytest.mark.guarantee
def test_a_setting_rejected_in_words_that_name_no_key_costs_no_other(
    sides: Sides, name: str, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = sides
    kept = {"max.message.bytes": "3000000", "retention.ms": "31536000000", "segment.ms": "600000"}
    create(source, name, 1, **{key.replace(".", "_"): value for key, value in kept.items()})
    java = {"security.protocol": "PLAINTEXT"} if client == "Java" else {}
    servers = {"bootstrap.servers": target.servers, **java}

    with caplog.at_level(logging.WARNING), Cluster("B", servers) as chosen:
        tiered = TieredCluster("A", {"bootstrap.servers": source.servers})
        prepare_topics(flow_config(name, replication_factor="1"), tiered, chosen)

    assert overrides(target, f"A.{name}") == kept
    (line,) = caplog.messages
    assert "key=remote.storage.enable value=true" in line
    assert "Tiered Storage functionality is disabled" in line


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
    assert overrides(target, f"A.{name}-unnamed") == {
        "max.message.bytes": "3000000",
        "cleanup.policy": "compact",
    }
    assert [line.partition(" text=")[0].partition(name)[2] for line in caplog.messages] == [
        "-named key=retention.ms value=-1",
        "-unnamed key=segment.ms value=60000",
    ]
    assert "set a limit with retention.ms" in caplog.text
    assert "too many small files" in caplog.text


def test_a_target_that_keeps_records_for_less_time_is_named(sides: Sides, name: str) -> None:
    source, target = sides
    create(source, name, max_message_bytes="3000000", cleanup_policy="compact")
    create(target, f"A.{name}", max_message_bytes="1000", retention_bytes="1000000")

    (cause,) = topic_warnings(look(flow_config(name), source, target), source, target)
    warning = str(cause)

    assert warning.startswith(f"topic A.{name} on B rejects or deletes records that {name} on A")
    for phrase in (
        "max.message.bytes=1000 (3000000 on the source)",
        "cleanup.policy=delete (compact on the source)",
        "retention.bytes=1000000 (-1 on the source)",
    ):
        assert phrase in warning
