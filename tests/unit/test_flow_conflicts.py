"""Flows of one file that would write the same topic, or copy it in a circle."""

import pytest

from replication.config.values import Raw
from tests.support.settings import IDENTITY, TWO_CLUSTERS, parse_settings, problems_of

THREE_CLUSTERS = {
    **TWO_CLUSTERS,
    "clusters": "A, B, C",
    "C.bootstrap.servers": "c:1",
    "A->C.enabled": "true",
}
END_LOOPS = (
    "these flows replication.provenance.header.enabled=true and the topics in "
    "replication.aggregate.topics"
)
ENDING = {
    "replication.provenance.header.enabled": "true",
    "replication.aggregate.topics": ".*",
}
DECLARE = "name it in replication.aggregate.topics of both flows, which then copy it at least once"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"B->C.enabled": "true", "topics": "orders"},
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="same name",
        ),
        pytest.param(
            {
                "B->C.enabled": "true",
                "topics": "orders",
                "B->C.replication.aggregate.topics": "orders",
            },
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="declared by one of two",
        ),
        pytest.param(
            {"B->C.enabled": "true", "A->C.topics": "orders", "B->C.topics": "ord.*"},
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="a name that the other's regex matches",
        ),
        pytest.param(
            {"C->A.enabled": "true"},
            "C->A.topics: replication loop: A -> C -> A would copy .* without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop",
        ),
        pytest.param(
            {"C->A.enabled": "true", **ENDING, "A->C.replication.aggregate.topics": "x"},
            "C->A.topics: replication loop: A -> C -> A would copy .* without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop that only one flow ends",
        ),
        pytest.param(
            {"C->A.enabled": "true", "A->C.topics": "orders", "C->A.topics": "ord.*"},
            "C->A.topics: replication loop: A -> C -> A would copy orders without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop of a name that the other's regex matches",
        ),
        pytest.param(
            {"C->B.enabled": "true", "B->A.enabled": "true", "topics": "orders, o.*"},
            "B->A.topics: replication loop: A -> C -> B -> A would copy o.*, orders without end "
            "under IdentityReplicationPolicy; use B->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop of three flows",
        ),
    ],
)
def test_identity_flows_that_share_a_topic_are_rejected(
    settings: dict[str, Raw], expected: str
) -> None:
    identity = {**THREE_CLUSTERS, "replication.policy.class": IDENTITY, **settings}

    assert problems_of(identity) == [expected]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"B->C.enabled": "true", "A->C.topics": "a", "B->C.topics": "b"}, id="apart"),
        pytest.param(
            {
                "B->C.enabled": "true",
                "topics": "a,b",
                "B->C.topics.exclude": "a",
                "A->C.topics.exclude": "b",
            },
            id="excluded",
        ),
        pytest.param({"B->C.enabled": "true"}, id="regexes alone are not compared"),
        pytest.param(
            {"C->A.enabled": "true", "A->C.topics": "a", "C->A.topics": "b"}, id="both ways, apart"
        ),
        pytest.param(
            {"C->A.enabled": "true", "topics": "a,b", "C->A.topics.exclude": "a,b"},
            id="both ways, excluded",
        ),
        pytest.param({"A->B.enabled": "true", "topics": "a"}, id="one source, two targets"),
        pytest.param(
            {"B->C.enabled": "true", "topics": "a", "replication.aggregate.topics": "a|b"},
            id="declared by both",
        ),
        pytest.param({"C->A.enabled": "true", **ENDING}, id="a loop that both flows end"),
        pytest.param(
            {"C->A.enabled": "true", **ENDING, "topics": "a", "replication.aggregate.topics": "a"},
            id="a loop of one topic that both flows end",
        ),
    ],
)
def test_identity_flows_without_a_shared_topic_are_accepted(settings: dict[str, Raw]) -> None:
    identity = {**THREE_CLUSTERS, "replication.policy.class": IDENTITY, **settings}

    assert len(parse_settings(identity).flows) == 2


def test_every_loop_is_reported() -> None:
    settings = {
        **THREE_CLUSTERS,
        "replication.policy.class": IDENTITY,
        **dict.fromkeys((f"{flow}.enabled" for flow in ("C->A", "A->B", "B->A")), "true"),
    }

    loops = [problem for problem in problems_of(settings) if "replication loop" in problem]

    assert [problem.partition(" would")[0] for problem in loops] == [
        "B->A.topics: replication loop: A -> B -> A",
        "C->A.topics: replication loop: A -> C -> A",
    ]


def test_flows_without_a_separator_that_form_a_loop_are_rejected() -> None:
    both = {**TWO_CLUSTERS, "enabled": "true", "replication.policy.separator": ""}

    (problem,) = problems_of(both)
    assert problem == (
        "B->A.replication.policy.separator: replication loop: A -> B -> A would copy topics "
        "without end, because an empty separator hides where they come from; write a separator, "
        "or name the topics"
    )
    assert len(parse_settings({**both, "topics": "orders, payments"}).flows) == 2
