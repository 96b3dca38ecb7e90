"""Topic setting sync: three sides in, changes out; and what is sent after a rejection."""

from datetime import datetime, timezone

import pytest

from replication.config.topic_settings import TopicConfigsConfig
from replication.model import Location, TopicSetting
from replication.topics.configs import SettingChange, SyncHistory, plan_changes

KEY = "retention.ms"


def topic(setting: str) -> dict[str, TopicSetting]:
    """All settings of a topic that has one: ``5`` set by itself, ``default 5``, ``file 5``."""
    origin, _, value = setting.rpartition(" ")
    match origin:
        case "default":
            return {KEY: TopicSetting(value, "default")}
        case "file":
            return {KEY: TopicSetting(value, "server.properties")}
        case "cluster":
            return {KEY: TopicSetting(value, "cluster")}
    return {KEY: TopicSetting(value, "topic")}


def changes(
    source: str,
    target: str,
    applied: dict[str, str | None] | None = None,
    *,
    exclude: tuple[str, ...] = (),
    defaults_from: Location = "target",
) -> list[SettingChange]:
    config = TopicConfigsConfig(
        exclude=exclude, defaults_from=defaults_from, sync_enabled=True, sync_interval_seconds=1
    )
    return list(plan_changes(topic(source), topic(target), applied or {}, config))


@pytest.mark.parametrize(
    ("source", "target", "applied", "expected"),
    [
        pytest.param("5", "5", {KEY: "5"}, "", id="in step"),
        pytest.param("5", "default 7", {}, "(target's default) -> 5", id="set on the source"),
        pytest.param("5", "default 5", {}, "(target's default) -> 5", id="equal by chance only"),
        pytest.param("cluster 5", "default 7", {}, "(target's default) -> 5", id="a default there"),
        pytest.param("6", "5", {KEY: "5"}, "5 -> 6", id="changed on the source"),
        pytest.param(
            "default 7", "5", {KEY: "5"}, "5 -> (target's default)", id="removed on the source"
        ),
        pytest.param("5", "9", {KEY: "5"}, "9 -> 5 conflict", id="changed on the target"),
        pytest.param("6", "9", {KEY: "5"}, "9 -> 6 conflict", id="changed on both sides"),
        pytest.param("6", "6", {KEY: "5"}, "recorded", id="changed on both sides alike"),
        pytest.param(
            "5",
            "default 7",
            {KEY: "5"},
            "(target's default) -> 5 conflict",
            id="removed on the target",
        ),
        pytest.param(
            "default 7",
            "9",
            {KEY: None},
            "9 -> (target's default) conflict",
            id="set on the target",
        ),
        pytest.param(
            "default 7",
            "9",
            {},
            "9 -> (target's default) conflict",
            id="set on the target before the first round",
        ),
        pytest.param("5", "5", {}, "recorded", id="created with it"),
        pytest.param("default 7", "file 3", {}, "", id="left to the target's file"),
        pytest.param("default 7", "default 7", {KEY: "5"}, "recorded", id="removed on both sides"),
        pytest.param("file 5", "9", {}, "", id="the source's file is not copied"),
        pytest.param(
            "file 5", "4", {KEY: "4"}, "4 -> (target's default)", id="now the source's file decides"
        ),
        pytest.param("file 5", "9", {KEY: "4"}, "", id="the file decides, and somebody else here"),
    ],
)
def test_what_a_round_changes(
    source: str, target: str, applied: dict[str, str | None], expected: str
) -> None:
    assert [shown(change) for change in changes(source, target, applied)] == (
        [expected] if expected else []
    )


def shown(change: SettingChange) -> str:
    if not change.is_due:
        return "recorded"
    return str(change).partition(": ")[2] + " conflict" * change.is_conflict


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        pytest.param("default 7", "default 3", "(target's default) -> 7", id="copied"),
        pytest.param("default 7", "7", "recorded", id="in step"),
        pytest.param("default 7", "9", "9 -> 7 conflict", id="set on the target"),
    ],
)
def test_defaults_from_the_source(source: str, target: str, expected: str) -> None:
    (change,) = changes(source, target, defaults_from="source")

    assert shown(change) == expected


def test_an_excluded_setting_is_left_alone() -> None:
    assert changes("5", "9", {KEY: "4"}, exclude=("retention.*",)) == []


def test_a_change_is_shown_with_its_setting() -> None:
    assert str(SettingChange(KEY, "5", None)) == "retention.ms: (target's default) -> 5"


def test_the_history_is_read_in_the_order_of_time() -> None:
    first, second, third = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3))

    history = SyncHistory.of(
        [
            row(second, "6"),
            row(first, "5"),
            row(third, None, key="segment.ms"),
            row(first, "7", remote_id="the topic of that name before"),
        ]
    )

    assert dict(history.applied) == {
        ("A.orders", "id"): {KEY: "6", "segment.ms": None},
        ("A.orders", "the topic of that name before"): {KEY: "7"},
    }


def test_a_rejection_is_known_until_another_value_is_accepted() -> None:
    remote, rejected = ("A.orders", "id"), SettingChange(KEY, "-1", None)
    history = SyncHistory()
    history.add(remote, SettingChange(KEY, "5", None), None)
    assert not history.was_rejected(remote, rejected)

    history.add(remote, rejected, "not here")
    assert history.was_rejected(remote, rejected)
    assert not history.was_rejected(remote, SettingChange(KEY, "9", None))
    assert not history.was_rejected(("A.other", "id"), rejected)
    assert dict(history.applied) == {remote: {KEY: "5"}}

    history.add(remote, SettingChange(KEY, "9", None), None)
    assert not history.was_rejected(remote, rejected)


def row(
    at: datetime, value: str | None, *, key: str = KEY, remote_id: str = "id"
) -> dict[str, object]:
    """A row of the table ``topic_configs``."""
    return {
        "at": at,
        "remote_topic": "A.orders",
        "remote_id": remote_id,
        "key": key,
        "value": value,
        "rejection": None,
    }
