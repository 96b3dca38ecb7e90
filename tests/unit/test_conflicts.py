"""Flows that must not run side by side: two writers of one topic, or a replication loop."""

import pytest

from replication.config.tree import FlowConfig
from replication.model import Flow
from replication.topics.conflicts import find_conflicts, find_topic_loops
from replication.topics.topic_plan import TopicPlan
from tests.support.settings import IDENTITY, parse_settings

AB, BA, CB = Flow("A", "B"), Flow("B", "A"), Flow("C", "B")
WRITERS_ADVICE = "exclude it from all but one with topics.exclude"
LOOP_ADVICE = (
    "exclude the topic from one of these flows with topics.exclude, or use the default "
    "replication policy"
)


def writes(**topics: str) -> TopicPlan:
    """A plan that writes upstream topics to remote ones."""
    return TopicPlan(topics, (), {}, (), {})


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        pytest.param({AB: writes(t="A.t"), CB: writes(t="C.t")}, (), id="no conflict"),
        pytest.param({AB: writes(t="t"), BA: writes(u="u")}, (), id="both ways, different topics"),
        pytest.param(
            {AB: writes(t="t"), CB: writes(t="t")},
            (f"flows A->B, C->B would all write topic t on cluster B; {WRITERS_ADVICE}",),
            id="two writers",
        ),
        pytest.param(
            {AB: writes(t="x"), Flow("A", "D"): writes(u="x")},
            (f"flows A->B, A->D would all write topic x on cluster B; {WRITERS_ADVICE}",),
            id="one cluster under two aliases",
        ),
        pytest.param(
            {AB: writes(t="t"), BA: writes(t="t")},
            (f"replication loop: A:t -> B:t -> A:t; {LOOP_ADVICE}",),
            id="a loop of two flows",
        ),
        pytest.param(
            {AB: writes(t="t"), Flow("B", "C"): writes(t="t"), Flow("C", "A"): writes(t="t")},
            (f"replication loop: A:t -> B:t -> C:t -> A:t; {LOOP_ADVICE}",),
            id="a loop of three flows",
        ),
        pytest.param(
            {AB: writes(t="t"), BA: writes(t="t"), CB: writes(t="t")},
            (
                f"flows A->B, C->B would all write topic t on cluster B; {WRITERS_ADVICE}",
                f"replication loop: A:t -> B:t -> A:t; {LOOP_ADVICE}",
            ),
            id="two writers and a loop",
        ),
    ],
)
def test_each_conflict_is_one_line(plans: dict[Flow, TopicPlan], expected: tuple[str, ...]) -> None:
    cluster_ids = {"A": "1", "B": "2", "C": "3", "D": "2"}

    assert find_conflicts(plans, cluster_ids) == expected


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
