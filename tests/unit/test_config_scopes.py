"""A setting may stand at top level, at a cluster or at a flow, and reaches what it stands at."""

import pytest

from replication.config.limits import Limit
from replication.mm2.policy import IdentityPolicy
from tests.support.settings import IDENTITY, ONE_FLOW, parse_settings


@pytest.mark.parametrize("at", ["", "A->B."])
def test_what_follows_from_several_keys_can_be_set_at_top_level_or_for_a_flow(at: str) -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            f"{at}replication.policy.class": IDENTITY,
            f"{at}replication.policy.separator": "_",
            f"{at}replication.policy.internal.topic.separator.enabled": "false",
            f"{at}tasks.max": "3",
            f"{at}replication.limit.bytes.per.second": "20MB",
            f"{at}replication.limit.records.per.second": "5000",
            f"{at}replication.limit.topics": "b 2MB/s 500records/s",
            f"{at}replication.dead.letters.topic": "letters",
            f"{at}status.storage.topic": "status",
            f"{at}topic.filter.class": "com.example.Own",
        }
    )

    (flow,) = config.flows
    assert flow.policy == IdentityPolicy("_", ".", source="A")
    assert flow.tasks_max == 3
    assert flow.limits == (Limit(None, 20_000_000, 5_000), Limit("b", 2_000_000, 500))
    assert flow.letters.letters_topic == "letters"
    assert flow.status.storage_topic == "status"
    assert flow.topic_filter is not None
    assert (flow.topic_filter.key, flow.topic_filter.name) == (
        f"{at}topic.filter.class",
        "com.example.Own",
    )


@pytest.mark.parametrize(("location", "alias"), [("source", "A"), ("target", "B")])
def test_heartbeats_are_written_where_the_key_says(location: str, alias: str) -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            "A->B.heartbeats.topic.location": location,
            "B->A.emit.heartbeats.enabled": "false",
        }
    )

    (pair,) = config.heartbeats
    assert (pair.alias, pair.producer["bootstrap.servers"]) == (alias, f"{alias.lower()}:1")


def test_an_alias_may_contain_dots_and_be_a_prefix_of_another() -> None:
    config = parse_settings(
        {
            "clusters": "eu,eu.west,source",
            "eu.bootstrap.servers": "a:1",
            "eu.west.bootstrap.servers": "b:1",
            "source.bootstrap.servers": "c:1",
            "source.consumer.fetch.min.bytes": "2",
            "eu->eu.west.enabled": "true",
            "source->eu.enabled": "true",
        }
    )

    assert [(str(one.flow), one.source.consumer, one.target.admin) for one in config.flows] == [
        ("eu->eu.west", {"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}),
        (
            "source->eu",
            {"bootstrap.servers": "c:1", "fetch.min.bytes": "2"},
            {"bootstrap.servers": "a:1"},
        ),
    ]


@pytest.mark.parametrize(
    ("alias", "key", "value"),
    [
        pytest.param("topics", "topics.exclude", "secret.*", id="topics"),
        pytest.param("groups", "groups.exclude", "secret.*", id="groups"),
    ],
)
def test_a_key_of_the_mirror_stays_one_where_a_cluster_is_called_like_its_beginning(
    alias: str, key: str, value: str
) -> None:
    config = parse_settings(
        {
            "clusters": f"{alias},B",
            f"{alias}.bootstrap.servers": "a:1",
            "B.bootstrap.servers": "b:1",
            f"{alias}->B.enabled": "true",
            key: value,
        }
    )

    (flow,) = config.flows
    excluded = flow.topics_exclude if alias == "topics" else flow.groups.groups_exclude
    assert excluded == (value,)
    assert flow.source.consumer == {"bootstrap.servers": "a:1"}
