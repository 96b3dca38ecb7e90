"""Which of the source's topics a flow replicates."""

from dataclasses import replace

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.topics.selection import (
    impossible_copies,
    remote_topics,
    replicated_topics,
    selects_nothing,
    unmatched_items,
)

NAMES = (
    "orders",
    "orders.replica",
    "__consumer_offsets",
    "B.orders",
    "A.orders",
    "C.orders",
    "heartbeats",
    "C.heartbeats",
    "B.heartbeats",
    "mm2-offset-syncs.B.internal",
    "C.checkpoints.internal",
    "mm2-status.B.internal",
    "a.internal",
    "payments",
)


def flow(**settings: str) -> FlowConfig:
    base = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    written = {key.replace("_", "."): value for key, value in settings.items()}
    all_settings = {**base, "A->B.enabled": "true", **written}
    return parse("f", all_settings, default_state_dir="/s").flows[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {},
            ("C.heartbeats", "C.orders", "a.internal", "heartbeats", "orders", "payments"),
            id="defaults",
        ),
        pytest.param(
            {"topics": "orders"},
            ("C.heartbeats", "heartbeats", "orders"),
            id="heartbeats topics as well",
        ),
        pytest.param(
            {"topics": "orders", "heartbeats_replication_enabled": "false"},
            ("orders",),
            id="no heartbeats",
        ),
        pytest.param(
            {"topics": "orders.*", "topics_exclude": ""},
            ("C.heartbeats", "heartbeats", "orders", "orders.replica"),
            id="nothing excluded",
        ),
        pytest.param(
            {"topics_exclude": ""},
            (
                "C.heartbeats",
                "C.orders",
                "a.internal",
                "heartbeats",
                "orders",
                "orders.replica",
                "payments",
            ),
            id="internal topics are never replicated",
        ),
    ],
)
def test_which_topics_are_replicated(settings: dict[str, str], expected: tuple[str, ...]) -> None:
    assert replicated_topics(flow(**settings), NAMES) == expected


def test_an_identity_flow_takes_names_that_look_remote() -> None:
    config = flow(replication_policy_class="IdentityReplicationPolicy", topics=".*orders")

    assert replicated_topics(config, NAMES) == (
        "A.orders",
        "B.orders",
        "C.heartbeats",
        "C.orders",
        "heartbeats",
        "orders",
    )


def test_an_empty_list_takes_heartbeats_topics_only() -> None:
    config = replace(flow(), topics=())

    assert replicated_topics(config, NAMES) == ("C.heartbeats", "heartbeats")


def test_remote_topics_pair_each_replicated_topic_with_its_name_on_the_target() -> None:
    config = flow(topics="orders", heartbeats_replication_enabled="false")

    assert remote_topics(config, NAMES) == {"orders": "A.orders"}


def test_a_remote_name_has_at_most_as_many_characters_as_kafka_allows() -> None:
    fits, long = "f" * 247, "l" * 248

    (name,) = impossible_copies(flow(), remote_topics(flow(), [fits, long]))

    assert name == long


@pytest.mark.parametrize(
    ("topics", "unmatched", "nothing"),
    [
        pytest.param("orders, payments", (), False, id="all there"),
        pytest.param("orders, paymens", ("paymens",), False, id="one misspelt"),
        pytest.param("ordres", ("ordres",), True, id="the only one misspelt"),
        pytest.param("__consumer_offsets", ("__consumer_offsets",), True, id="excluded"),
        pytest.param("heartbeats", (), True, id="heartbeats only"),
        pytest.param("", (), False, id="empty on purpose"),
        pytest.param(".*", (), False, id="every topic"),
    ],
)
def test_which_items_of_the_list_select_nothing(
    topics: str, unmatched: tuple[str, ...], *, nothing: bool
) -> None:
    config = flow(topics=topics)
    selected = replicated_topics(config, NAMES)

    assert unmatched_items(config, selected) == unmatched
    assert selects_nothing(config, selected) is nothing


def test_a_source_without_topics_is_no_mistake_if_every_topic_is_wanted() -> None:
    assert not selects_nothing(flow(), ())
    assert selects_nothing(flow(topics="orders"), ())
