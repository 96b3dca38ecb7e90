"""Items that can match no name are errors that name the cause; all others are taken."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.keys import KEYS
from replication.config.values import InvalidValueError, read
from replication.errors import ConfigError
from replication.mm2.filters import LEGAL, NameFilter, impossible
from tests.support.settings import ONE_FLOW, parse_settings


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("topics.exclude", "secret.*   # never copy", "a line of its own"),
        ("topics", "prod-.*\t! all of them", "a line of its own"),
        ("groups", "billing.*  # only these", "a line of its own"),
        ("groups.exclude", ".*  # none", "a line of its own"),
        ("topics", '".*"', "remove them"),
        ("topics", "'orders'", "remove them"),
        ("groups", '"billing, shipping"', "remove them"),
        ("topics", "orders payments", "separate the items with commas"),
        ("topics", "orders;payments", "A-Z a-z 0-9 . _ - only"),
        ("groups.exclude", 'billing"', "quotes are a part of the value"),
        ("config.properties.exclude", "retention.ms # no", "a line of its own"),
        ("replication.guard.topics", "a b", "separate the items with commas"),
        ("replication.aggregate.topics", "a # b", "a line of its own"),
        ("replication.takeover.topic", "mm2-offsets.A.internal # of MM2", "in another line"),
        ("state.dir", "/var/lib/replication  # state", "in another line"),
    ],
)
def test_a_value_that_can_match_nothing_is_an_error_with_its_cause(
    key: str, value: str, cause: str
) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(cause)):
        read(KEYS[key], value)
    with pytest.raises(ConfigError, match=re.escape(cause)):
        parse_settings({**ONE_FLOW, key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (
            "topics",
            r"orders|pay ments, [a-z ]+, (?!secret).*, \Qa.b\E, .*, x*, [*], [ ]*orders, ^a$, a{2}",
        ),
        ("groups", "the billing group, #1, team's, a/b, .*"),
        ("topics.exclude", r"mm2.*\.internal, .*\.replica, __.*"),
    ],
)
def test_what_may_match_a_name_is_taken(key: str, value: str) -> None:
    read(KEYS[key], value)


@given(
    name=st.text(LEGAL, min_size=1, max_size=8),
    item=st.text("ab .|()[]*+?#", min_size=1, max_size=8),
)
def test_an_item_that_matches_a_legal_name_is_never_refused(name: str, item: str) -> None:
    try:
        is_match = NameFilter((item,)).accepts(name)
    except ValueError:
        return  # no pattern at all
    if is_match:
        assert impossible(item, is_of_groups=False) is None


def test_a_comment_behind_a_client_property_is_a_warning() -> None:
    (warning,) = parse_settings({**ONE_FLOW, "A.client.id": "mirror # ours"}).warnings

    assert warning.startswith("A.client.id: the value contains what looks like a comment")


def test_a_property_of_another_kind_of_client_is_a_warning() -> None:
    key = "A->B.source.consumer.max.request.size"
    (warning,) = parse_settings({**ONE_FLOW, key: "1000"}).warnings

    assert warning.startswith(f"{key}: has no effect, as in MirrorMaker 2")
