"""The keys of the status topic: Connect's, where MirrorMaker 2's workers read them."""

import pytest

from replication.config.topic_settings import StatusConfig
from replication.errors import ConfigError
from replication.topics.selection import replicated_topics
from tests.support.settings import ONE_FLOW, parse_settings

THREE = {
    "clusters": "A, B, C",
    **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"},
    "A->B.enabled": "true",
    "B->C.enabled": "true",
}


def status(**settings: str) -> StatusConfig:
    """The section of a flow from A to B."""
    (flow,) = parse_settings({**ONE_FLOW, **settings}).flows
    return flow.status


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, 5, id="the default"),
        pytest.param({"B.status.storage.partitions": "2"}, 2, id="of the target"),
        pytest.param({"A.status.storage.partitions": "2"}, 5, id="of the source"),
        pytest.param(
            {"B.status.storage.partitions": "2", "status.storage.partitions": "3"},
            3,
            id="the top level wins, as in MM2",
        ),
        pytest.param(
            {"status.storage.partitions": "3", "A->B.status.storage.partitions": "4"},
            4,
            id="the flow wins",
        ),
    ],
)
def test_the_nearest_value_counts(settings: dict[str, str], expected: int) -> None:
    assert status(**settings).partitions == expected


def test_the_topic_has_dots_whatever_the_separator_is_and_no_name_turns_it_off() -> None:
    assert status(**{"replication.policy.separator": "_"}).storage_topic == "mm2-status.A.internal"
    assert status(**{"status.storage.topic": ""}).storage_topic == ""
    assert status(**{"B.status.storage.topic": " st "}).storage_topic == "st"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("status.storage.topic", "a/b", "is not a topic's name"),
        ("B.status.storage.partitions", "many", "write a whole number"),
        ("A->B.status.publish.interval.seconds", "-1", "write 0 or more"),
    ],
)
def test_a_value_that_cannot_be_used_is_a_problem(key: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        status(**{key: value})

    assert caught.value.problems[0].startswith(f"{key}: ")


def test_no_flow_copies_the_status_of_another_one() -> None:
    settings = {**THREE, "topics.exclude": "", "A->B.status.storage.topic": "health"}
    names = ["health", "mm2-status.A.internal", "mm2-status.C.internal", "orders"]

    _, onward = parse_settings(settings).flows

    assert replicated_topics(onward, names) == ("orders",)


def test_two_flows_that_share_a_topic_are_warned() -> None:
    shared = {**THREE, "A->C.enabled": "true", "status.storage.topic": "health"}

    (warning,) = parse_settings(shared).warnings

    assert "A->C, B->C would all write topic health on C" in warning
    assert not parse_settings({**THREE, "A->C.enabled": "true"}).warnings
