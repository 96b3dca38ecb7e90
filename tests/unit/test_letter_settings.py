"""The topic of dead letters: none that a flow copies, or that mirrors write for themselves."""

import pytest

from replication.topics.selection import impossible_copies, remote_topics, replicated_topics
from tests.support.settings import IDENTITY, ONE_FLOW, parse_settings, problems_of

KEPT = {"replication.dead.letters": "topic", "topics.exclude": ""}
TOPIC = "replication.dead.letters.topic"
BOTH_WAYS = {
    "clusters": "A, B, C",
    **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"},
    **{f"{flow}.enabled": "true" for flow in ("A->B", "B->A", "B->C")},
    **KEPT,
}


@pytest.mark.parametrize(
    ("settings", "letters"),
    [({}, "A.dead-letters.internal"), ({f"A->B.{TOPIC}": "dead"}, "dead")],
    ids=["by default", "named"],
)
@pytest.mark.parametrize("policy", ["DefaultReplicationPolicy", IDENTITY])
def test_no_flow_copies_the_letters_of_another_one(
    settings: dict[str, str], letters: str, policy: str
) -> None:
    """A letter that nobody can copy would become a letter of a letter, without end."""
    naming = {"replication.policy.class": policy, "C->B.enabled": "false"}
    ends = {"replication.aggregate.topics": ".*", "replication.provenance.header.enabled": "true"}
    flows = parse_settings({**BOTH_WAYS, **naming, **ends, **settings}).flows

    taken = {str(one.flow): replicated_topics(one, [letters, "orders"]) for one in flows}

    assert taken["B->A"] == taken["B->C"] == ("orders",)


@pytest.mark.parametrize("settings", [{}, {"A->B.topics": "orders"}], ids=["regex", "name"])
def test_a_topic_whose_copy_would_be_the_topic_of_letters_is_set_aside(
    settings: dict[str, str],
) -> None:
    (flow,) = parse_settings({**ONE_FLOW, **KEPT, TOPIC: "A.orders", **settings}).flows

    found = impossible_copies(flow, remote_topics(flow, ["orders", "payments"]))

    assert list(found) == ["orders"]
    assert found["orders"].startswith("A.orders is where flows keep dead letters on B: write")


def test_letters_in_a_table_leave_every_topic_its_name() -> None:
    settings = {**ONE_FLOW, **KEPT, TOPIC: "A.orders", "replication.dead.letters": "table"}
    (flow,) = parse_settings(settings).flows

    assert impossible_copies(flow, remote_topics(flow, ["orders"])) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a/b", "is not a topic's name"),
        ("__consumer_offsets", "is a topic that mirrors, or Kafka, write"),
        ("heartbeats", "is a topic that mirrors, or Kafka, write"),
        ("A.checkpoints.internal", "is a topic that mirrors, or Kafka, write"),
        ("mm2-offset-syncs.A.internal", "is a topic that mirrors, or Kafka, write"),
        ("mm2-status.A.internal", "is a topic that mirrors, or Kafka, write"),
        ("health", "is a topic that mirrors, or Kafka, write"),
    ],
)
def test_a_name_that_letters_cannot_have_is_a_problem(name: str, text: str) -> None:
    (problem,) = problems_of({**ONE_FLOW, **KEPT, TOPIC: name, "status.storage.topic": "health"})

    assert problem.startswith(f"{TOPIC}: ")
    assert text in problem


def test_a_name_of_ones_own_is_taken() -> None:
    for name in ("dead", "mm2-dead-letters.internal", "A.dead-letters.internal"):
        (flow,) = parse_settings({**ONE_FLOW, **KEPT, TOPIC: name}).flows
        assert flow.letters.letters_topic == name
