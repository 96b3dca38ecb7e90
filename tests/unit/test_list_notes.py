"""Items of lists that have no effect are named, each with the reason that is true."""

import pytest

from replication.config.tree import FlowConfig
from replication.model import TopicPartition
from replication.topics.selection import (
    aliased_topics,
    group_notes,
    replicated_topics,
    setting_notes,
    topic_notes,
    uncopied_reads,
)
from tests.support.settings import ONE_FLOW, parse_settings

NAMES = ("orders", "secret", "A.orders", "B.orders", "C.orders", "mm2-x.internal", "A.heartbeats")


def flow(**settings: str) -> FlowConfig:
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return parse_settings({**ONE_FLOW, **keys}).flows[0]


@pytest.mark.parametrize(
    ("settings", "phrases"),
    [
        pytest.param({}, (), id="defaults"),
        pytest.param({"topics": "ordres"}, ("'ordres' in the list topics of A->B",), id="misspelt"),
        pytest.param({"topics": "ordres"}, ("it is misspelt, or the user of A lacks",), id="why"),
        pytest.param(
            {"topics": "orders, secret", "topics_exclude": "sec.*"},
            ("topics.exclude excludes what it matches, such as secret",),
            id="excluded",
        ),
        pytest.param(
            {"topics": r"orders, A\..*"},
            ("what it matches, such as A.heartbeats, begins with the alias A",),
            id="like an alias",
        ),
        pytest.param(
            {"topics": "mm2-x.*", "topics_exclude": ""},
            ("mm2-x.internal, is internal",),
            id="internal",
        ),
        pytest.param(
            {"topics_exclude": "secrets, mm2.*"},
            ("'secrets' in the list topics.exclude of A->B excludes no topic of A: it is",),
            id="excludes nothing",
        ),
    ],
)
def test_items_of_the_lists_of_topics(settings: dict[str, str], phrases: tuple[str, ...]) -> None:
    config = flow(**settings, heartbeats_replication_enabled="false")
    notes = list(topic_notes(config, NAMES, replicated_topics(config, NAMES)))

    assert len(notes) == len(phrases)
    assert all(phrase in note for phrase, note in zip(phrases, notes, strict=True))


@pytest.mark.parametrize(
    ("settings", "phrases"),
    [
        pytest.param({}, [], id="defaults"),
        pytest.param({"groups": "bill.*"}, [], id="one"),
        pytest.param(
            {"groups": "ship.*"},
            ["'ship.*' in the list groups of A->B selects no group of A: it is misspelt"],
            id="none",
        ),
        pytest.param(
            {"groups": "bill.*", "groups_exclude": "billing"},
            ["groups.exclude excludes what it matches, such as billing"],
            id="excluded",
        ),
        pytest.param(
            {"groups_exclude": "ship.*, connect-.*"},
            ["'ship.*' in the list groups.exclude of A->B excludes no group of A"],
            id="excludes nothing",
        ),
    ],
)
def test_items_of_the_lists_of_groups(settings: dict[str, str], phrases: list[str]) -> None:
    notes = list(group_notes(flow(**settings), ["billing"]))

    assert len(notes) == len(phrases)
    assert all(phrase in note for phrase, note in zip(phrases, notes, strict=True))


def test_the_default_of_groups_is_no_news_where_there_is_no_group() -> None:
    assert list(group_notes(flow(), [])) == []


@pytest.mark.parametrize(
    ("settings", "phrases"),
    [
        pytest.param(
            {"topics": "orders"},
            ["group audit, billing reads refunds on A, which A->B does not copy"],
            id="of all groups those that read both",
        ),
        pytest.param(
            {"topics": "orders", "groups": ".*ing, audit"},
            ["group audit, billing reads refunds", "group shipping reads parcels on A"],
            id="of named groups all",
        ),
        pytest.param({"topics": ".*"}, [], id="all is copied"),
    ],
)
def test_groups_that_read_what_is_not_copied(settings: dict[str, str], phrases: list[str]) -> None:
    read = {"billing": ["orders", "refunds", "B.back"], "audit": ["orders", "refunds"]}
    read |= {"shipping": ["parcels", "mm2-x.internal"], "empty": []}
    committed = {group: [TopicPartition(name, 0) for name in read[group]] for group in read}

    notes = list(uncopied_reads(flow(**settings), committed))

    assert len(notes) == len(phrases), notes
    assert all(phrase in note for phrase, note in zip(phrases, notes, strict=True))


def test_items_of_the_excluded_settings() -> None:
    excluding = flow(config_properties_exclude="retention.ms, retention.msx, min\\.insync.*")

    (note,) = setting_notes(excluding, ["retention.ms", "min.insync.replicas"])

    assert note.startswith("'retention.msx' in the list config.properties.exclude of A->B")
    assert list(setting_notes(flow(), ["retention.ms"])) == []


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        pytest.param({}, {"A.orders": "A", "B.orders": "B"}, id="both aliases"),
        pytest.param({"topics_exclude": "[AB].*"}, {}, id="excluded by name"),
        pytest.param({"topics": "orders"}, {}, id="not asked for"),
        pytest.param({"replication_policy_separator": "-"}, {}, id="another separator"),
        pytest.param({"replication_policy_class": "IdentityReplicationPolicy"}, {}, id="identity"),
    ],
)
def test_topics_named_like_an_alias(settings: dict[str, str], found: dict[str, str]) -> None:
    assert aliased_topics(flow(**settings), NAMES) == found
