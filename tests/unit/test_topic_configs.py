"""Topic settings: what is copied, what is dropped when rejected, what a target would not keep."""

import pytest

from replication.config.keys import KEYS
from replication.config.topic_settings import TopicConfigsConfig
from replication.config.values import items
from replication.model import Location, TopicSetting
from replication.topics.configs import (
    Settings,
    describe_losses,
    settings_to_create,
)

EXCLUDE = items(KEYS["config.properties.exclude"].default)
DEFAULTS = {
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
}


def copying(
    exclude: tuple[str, ...] = (), defaults_from: Location = "target"
) -> TopicConfigsConfig:
    return TopicConfigsConfig(
        exclude=exclude, defaults_from=defaults_from, sync_enabled=True, sync_interval_seconds=1
    )


@pytest.mark.parametrize(
    ("setting", "from_target", "from_source"),
    [
        pytest.param(TopicSetting("1", "topic"), True, True, id="set on the topic"),
        pytest.param(TopicSetting("1", "cluster"), True, True, id="a dynamic broker default"),
        pytest.param(TopicSetting("1", "unknown"), True, True, id="of a newer kind"),
        pytest.param(TopicSetting("1", "default"), False, True, id="Kafka's default"),
        pytest.param(TopicSetting("1", "server.properties"), False, False, id="of the file"),
        pytest.param(TopicSetting("1", "topic", is_read_only=True), False, False, id="read-only"),
        pytest.param(TopicSetting("1", "topic", is_sensitive=True), False, False, id="sensitive"),
        pytest.param(TopicSetting(None, "default"), False, False, id="without a value"),
    ],
)
def test_which_settings_a_remote_topic_is_created_with(
    setting: TopicSetting, *, from_target: bool, from_source: bool
) -> None:
    settings = {"retention.ms": setting}
    copied = {"retention.ms": "1"}

    target = settings_to_create(settings, copying(defaults_from="target"))
    source = settings_to_create(settings, copying(defaults_from="source"))

    assert target == (copied if from_target else {})
    assert source == (copied if from_source else {})


@pytest.mark.parametrize(
    ("key", "is_excluded"),
    [
        ("follower.replication.throttled.replicas", True),
        ("leader.replication.throttled.replicas", True),
        ("message.timestamp.difference.max.ms", True),
        ("message.timestamp.type", True),
        ("unclean.leader.election.enable", True),
        ("min.insync.replicas", True),
        # MirrorMaker 2 4.3 excludes the brokers' names of these two, which no topic has
        ("log.message.timestamp.before.max.ms", True),
        ("message.timestamp.before.max.ms", False),
        ("message.timestamp.after.max.ms", False),
        ("retention.ms", False),
    ],
)
def test_the_default_excludes_are_those_of_mirrormaker_4_3(key: str, *, is_excluded: bool) -> None:
    copied = settings_to_create({key: TopicSetting("1", "topic")}, copying(EXCLUDE))

    assert copied == ({} if is_excluded else {key: "1"})


def in_effect(**settings: str) -> Settings:
    """Kafka's defaults and *settings*; ``_`` in a key stands for a dot."""
    values = DEFAULTS | {key.replace("_", "."): value for key, value in settings.items()}
    return {key: TopicSetting(value, "topic") for key, value in values.items()}


@pytest.mark.parametrize(
    ("source", "target", "keys"),
    [
        pytest.param({}, {}, [], id="equal"),
        pytest.param({"retention_ms": "-1"}, {}, ["retention.ms"], id="kept without limit there"),
        pytest.param({}, {"retention_ms": "-1"}, [], id="kept without limit here"),
        pytest.param({}, {"retention_ms": "1000"}, ["retention.ms"], id="shorter"),
        pytest.param({}, {"retention_bytes": "1000"}, ["retention.bytes"], id="a size limit"),
        pytest.param({"retention_bytes": "1000"}, {}, [], id="a size limit there"),
        pytest.param(
            {"cleanup_policy": "compact"},
            {},
            ["cleanup.policy", "retention.ms"],
            id="compacted there, deleted here",
        ),
        pytest.param(
            {"cleanup_policy": "compact"}, {"retention_ms": "-1"}, [], id="deleted, but never"
        ),
        pytest.param({}, {"cleanup_policy": "compact"}, ["cleanup.policy"], id="compacted here"),
        pytest.param(
            {"cleanup_policy": "compact"},
            {"cleanup_policy": "delete,compact"},
            ["cleanup.policy", "retention.ms"],
            id="compacted, and deleted here only",
        ),
        pytest.param(
            {"cleanup_policy": "compact, delete"},
            {"cleanup_policy": "compact"},
            [],
            id="compacted, and deleted there only",
        ),
        pytest.param(
            {"cleanup_policy": "compact"}, {"cleanup_policy": ""}, [], id="no clean-up here"
        ),
        pytest.param(
            {"max_message_bytes": "3000000"}, {}, ["max.message.bytes"], id="larger records there"
        ),
        pytest.param(
            {"message_timestamp_before_max_ms": "9223372036854775807"},
            {"message_timestamp_before_max_ms": "3600000"},
            ["message.timestamp.before.max.ms"],
            id="older records there",
        ),
    ],
)
def test_what_a_target_would_not_keep(
    source: dict[str, str], target: dict[str, str], keys: list[str]
) -> None:
    assert [*describe_losses(in_effect(**source), in_effect(**target))] == keys


def test_a_loss_is_described_with_both_values() -> None:
    losses = describe_losses(in_effect(retention_ms="-1"), in_effect())

    assert losses == {"retention.ms": "retention.ms=604800000 (-1 on the source)"}


def test_settings_that_a_cluster_does_not_show_lose_nothing() -> None:
    assert describe_losses({}, in_effect()) == describe_losses(in_effect(), {}) == {}
