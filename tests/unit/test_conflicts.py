"""Flows that must not run side by side: two writers of one topic, or a replication loop."""

from dataclasses import replace

import pytest

from replication.config.tree import FlowConfig
from replication.model import Flow
from replication.topics.topic_plan import (
    TopicPlan,
    find_all_conflicts,
    find_conflicts,
    find_topic_loops,
)
from tests.support.settings import IDENTITY, parse_settings

AB, BA, CB = Flow("A", "B"), Flow("B", "A"), Flow("C", "B")


def two_writers(writers: str, flow: str, topic: str, remote: str) -> str:
    """The line about a topic of *flow* that *writers* write."""
    return (
        f"flow {writers} writes topic {remote} on cluster {flow[-1]}, to which {flow} would copy "
        f"{topic}; exclude it from all flows but one with topics.exclude, or name {remote} in "
        "replication.aggregate.topics of each of them, which then copy it at least once"
    )


LOOP_ADVICE = (
    "exclude the topic from one of these flows with topics.exclude, use the default replication "
    "policy, or write for each of them replication.provenance.header.enabled=true and the topics "
    "in replication.aggregate.topics"
)


def writes(**topics: str) -> TopicPlan:
    """A plan that writes upstream topics to remote ones."""
    return TopicPlan(topics, (), {}, (), dict.fromkeys(topics, "id"))


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        pytest.param({AB: writes(t="A.t"), CB: writes(t="C.t")}, (), id="no conflict"),
        pytest.param({AB: writes(t="t"), BA: writes(u="u")}, (), id="both ways, different topics"),
        pytest.param(
            {AB: writes(t="t"), CB: writes(t="t")},
            ("C->B: " + two_writers("A->B", "C->B", "t", "t"),),
            id="two writers",
        ),
        pytest.param(
            {AB: writes(t="x"), Flow("A", "D"): writes(u="x")},
            ("A->D: " + two_writers("A->B", "A->D", "u", "x"),),
            id="one cluster under two aliases",
        ),
        pytest.param(
            {AB: writes(t="t"), BA: writes(t="t")},
            (f"B->A: replication loop: A:t -> B:t -> A:t; {LOOP_ADVICE}",),
            id="a loop of two flows",
        ),
        pytest.param(
            {AB: writes(t="t"), Flow("B", "C"): writes(t="t"), Flow("C", "A"): writes(t="t")},
            (f"C->A: replication loop: A:t -> B:t -> C:t -> A:t; {LOOP_ADVICE}",),
            id="a loop of three flows",
        ),
        pytest.param(
            {AB: writes(t="t"), BA: writes(t="t"), CB: writes(t="t")},
            (
                f"B->A: replication loop: A:t -> B:t -> A:t; {LOOP_ADVICE}",
                "C->B: " + two_writers("A->B", "C->B", "t", "t"),
            ),
            id="two writers and a loop",
        ),
    ],
)
def test_each_conflict_is_one_line(plans: dict[Flow, TopicPlan], expected: tuple[str, ...]) -> None:
    cluster_ids = {"A": "1", "B": "2", "C": "3", "D": "2"}

    assert find_all_conflicts(plans, cluster_ids) == expected


def test_flows_that_all_declare_it_share_a_topic() -> None:
    declared = replace(writes(t="t"), shared=frozenset({"t"}))
    ids = {"A": "1", "B": "2", "C": "3"}

    assert find_conflicts(CB, {AB: declared, CB: declared}, ids) == {}
    for plans in ({AB: writes(t="t"), CB: declared}, {AB: declared, CB: writes(t="t")}):
        assert find_conflicts(CB, plans, ids) == {"t": two_writers("A->B", "C->B", "t", "t")}


def test_a_loop_is_allowed_if_all_of_its_flows_end_it() -> None:
    ends = replace(writes(t="t"), shared=frozenset({"t"}), has_provenance=True)
    ids = {"A": "1", "B": "2", "C": "3"}
    goes_on = replace(ends, has_provenance=False)

    assert find_conflicts(BA, {AB: ends, BA: ends}, ids) == {}
    for plans in ({AB: ends, BA: goes_on}, {AB: goes_on, BA: ends}):
        assert "A:t -> B:t -> A:t" in find_conflicts(BA, plans, ids)["t"]
    around = {AB: ends, BA: ends, Flow("B", "C"): goes_on, Flow("C", "A"): ends}
    assert "A:t -> B:t -> C:t -> A:t" in find_conflicts(Flow("C", "A"), around, ids)["t"]


def test_a_loop_of_the_others_is_not_blamed_on_a_flow() -> None:
    plans = {AB: writes(t="t"), BA: writes(t="t"), CB: writes(u="u")}

    assert find_conflicts(CB, plans, {"A": "1", "B": "2", "C": "3"}) == {}


def test_of_the_topics_of_a_flow_only_those_in_conflict_are_named() -> None:
    plans = {AB: writes(t="t", u="u"), CB: writes(t="t", v="v")}

    assert find_conflicts(CB, plans, {"A": "1", "B": "2", "C": "3"}).keys() == {"t"}


IDS = {"A": "1", "B": "2", "C": "3", "D": "2"}


def flows(*enabled: str, **settings: str) -> tuple[FlowConfig, ...]:
    """Flows with identity naming; ``_`` in a key of *settings* stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return parse_settings(
        {
            "clusters": ", ".join(IDS),
            **{f"{alias}.bootstrap.servers": f"{alias.lower()}:1" for alias in IDS},
            **{f"{flow}.enabled": "true" for flow in enabled},
            **{f"{flow}.topics": f"t.*|{number}" for number, flow in enumerate(enabled)},
            "replication.policy.class": IDENTITY,
            **keys,
        }
    ).flows


@pytest.mark.parametrize(
    ("configured", "names", "expected"),
    [
        pytest.param(
            flows("A->B", "B->A"), {"A": ["t1"]}, "A:t1 -> B:t1 -> A:t1", id="there and back"
        ),
        pytest.param(
            flows("A->B", "B->C", "C->A"),
            {"B": ["t1", "u"]},
            "A:t1 -> B:t1 -> C:t1 -> A:t1",
            id="over three clusters",
        ),
        pytest.param(
            flows("A->B", "D->A"), {"A": ["t1"]}, "A:t1 -> B:t1 -> A:t1", id="two aliases of one"
        ),
        pytest.param(flows("A->B", "B->A"), {"A": ["u"]}, None, id="no topic that both select"),
        pytest.param(flows("A->B", "B->C"), {"A": ["t1"]}, None, id="no way back"),
        pytest.param(
            flows("A->B", "B->A", replication_policy_class="DefaultReplicationPolicy"),
            {"A": ["t1"], "B": ["t1"]},
            None,
            id="prefixes",
        ),
    ],
)
def test_a_loop_is_found_before_any_record_is_copied(
    configured: tuple[FlowConfig, ...], names: dict[str, list[str]], expected: str | None
) -> None:
    lines = (f"replication loop: {expected}; {LOOP_ADVICE}",) if expected else ()

    assert find_topic_loops(configured, names, IDS) == lines
