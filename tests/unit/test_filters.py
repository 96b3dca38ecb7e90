"""Which names are taken: items match whole names, exclusion wins, Java's spelling is read."""

from dataclasses import replace

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.mm2.filters import NameFilter, pattern_problem
from replication.topics.topic_plan import replicated_topics


@pytest.mark.parametrize(
    ("include", "exclude", "name", "expected"),
    [
        pytest.param(("a",), (), "a", True, id="name"),
        pytest.param(("a",), (), "aa", False, id="the whole name"),
        pytest.param(("a|ab",), (), "ab", True, id="alternatives, whole name"),
        pytest.param(("a", "b.*"), (), "bcd", True, id="any item"),
        pytest.param((".*",), ("b",), "b", False, id="exclusion wins"),
        pytest.param((), (), "a", False, id="nothing included"),
        pytest.param(("a{1,3}",), (), "aaa", True, id="comma"),
        pytest.param((r"\Qa.b\E.*",), (), "a.bc", True, id="Java's quote"),
        pytest.param((r"\Qa.b\E",), (), "axb", False, id="Java's quote is literal"),
        pytest.param((r"a\Q.",), (), "a.", True, id="Java's quote, left open"),
        pytest.param(("(?<x>a)b",), (), "ab", True, id="Java's group name"),
        pytest.param(("(?<=a)b|a",), (), "a", True, id="look-behind is no group name"),
        pytest.param(("(?i)A", "b"), (), "a", True, id="flag"),
        pytest.param(("(?i)A", "b"), (), "B", False, id="flag of one item only"),
        pytest.param((r"\w+",), (), "é", False, id="ASCII classes, as in Java"),
    ],
)
def test_name_filter(
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    name: str,
    expected: bool,  # noqa: FBT001  # a table's column
) -> None:
    assert NameFilter(include, exclude).accepts(name) is expected


@pytest.mark.parametrize("item", ["a(", "*", r"\p{Alpha}", "[a-z&&[^b]]", "(?i", "[[:alpha:]]"])
def test_a_pattern_that_cannot_be_read_is_a_problem(item: str) -> None:
    assert str(pattern_problem(item)).startswith(f"{item!r} is not a pattern")


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
            {"topics": "orders"}, ("C.heartbeats", "heartbeats", "orders"), id="heartbeats besides"
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
            id="internal topics stay out all the same",
        ),
    ],
)
def test_replicated_topics(settings: dict[str, str], expected: tuple[str, ...]) -> None:
    assert replicated_topics(flow(**settings), NAMES) == expected


def test_identity_takes_names_that_look_remote() -> None:
    config = flow(replication_policy_class="IdentityReplicationPolicy", topics=".*orders")

    assert replicated_topics(config, NAMES) == (
        "A.orders",
        "B.orders",
        "C.heartbeats",
        "C.orders",
        "heartbeats",
        "orders",
    )


def test_an_empty_list_takes_heartbeats_only() -> None:
    config = replace(flow(), topics=())

    assert replicated_topics(config, NAMES) == ("C.heartbeats", "heartbeats")
