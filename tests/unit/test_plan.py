"""Selection, creation, growth and conflicts: topics in, plan out."""

from dataclasses import replace

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.mm2.policy import PrefixPolicy
from replication.model import Flow, NewTopic, Topic, TopicPartition
from replication.topics.topic_plan import TopicPlan, conflicts, plan_topics

AB, BA, CB = Flow("A", "B"), Flow("B", "A"), Flow("C", "B")


def flow_config(**settings: str) -> FlowConfig:
    """The flow A->B; ``_`` in a key stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    clusters = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    flat = {**clusters, "A->B.enabled": "true", **keys}
    return parse("test", flat, default_state_dir="file:///state").flows[0]


def cluster(**partitions: int) -> dict[str, Topic]:
    """Topics with ids; ``_`` in a name stands for a dot."""
    names = {name.replace("_", "."): count for name, count in partitions.items()}
    return {name: Topic(name, f"id of {name}", count) for name, count in names.items()}


def test_a_missing_remote_topic_is_created_like_its_upstream_one() -> None:
    config = flow_config(topics="orders", replication_factor="3")
    size = {"orders": {"max.message.bytes": "9"}, "other": {"max.message.bytes": "1"}}

    plan = plan_topics(config, cluster(orders=2, other=1), {}, size)

    assert plan == TopicPlan(
        topics={"orders": "A.orders"},
        create=(NewTopic("A.orders", 2, 3, (("max.message.bytes", "9"),)),),
        grow={},
        partitions=(TopicPartition("orders", 0), TopicPartition("orders", 1)),
        source_ids={"orders": "id of orders"},
        remote_ids={},
        problems=(),
    )


@pytest.mark.parametrize(
    ("remote_partitions", "grow"),
    [
        pytest.param(2, {"A.orders": 3}, id="fewer partitions: grows"),
        pytest.param(3, {}, id="as many: nothing to do"),
        pytest.param(4, {}, id="more: left alone"),
    ],
)
def test_an_existing_remote_topic(remote_partitions: int, grow: dict[str, int]) -> None:
    plan = plan_topics(flow_config(), cluster(orders=3), cluster(A_orders=remote_partitions))

    assert (plan.create, plan.grow) == ((), grow)
    assert plan.partitions == tuple(TopicPartition("orders", number) for number in range(3))
    assert plan.remote_ids == {"A.orders": "id of A.orders"}


def test_partitions_are_sorted_by_topic_and_number() -> None:
    plan = plan_topics(flow_config(), cluster(b=1, a=11), {})

    assert plan.partitions == tuple(sorted(plan.partitions))
    assert [str(tp) for tp in plan.partitions][-2:] == ["a-10", "b-0"]


def test_topics_that_came_from_the_target_stay_there() -> None:
    plan = plan_topics(flow_config(), cluster(orders=1, B_orders=1, __internal=1), {})

    assert dict(plan.topics) == {"orders": "A.orders"}


def test_nothing_matches() -> None:
    plan = plan_topics(flow_config(topics="nothing"), cluster(orders=1), {})

    assert plan == TopicPlan({}, (), {}, (), {})


def test_two_topics_with_one_remote_name_are_a_problem() -> None:
    config = replace(flow_config(), policy=_OneName())

    plan = plan_topics(config, cluster(a=1, b=1, c=1), {})

    (problem,) = plan.problems
    assert "topics a, b, c would all be written to same" in problem


class _OneName(PrefixPolicy):
    """A policy of the kind a user may write: every topic gets the same remote name."""

    def remote_topic(self, source: str, topic: str) -> str:  # noqa: ARG002 - the point
        return "same"


@pytest.mark.parametrize(
    ("source", "target", "is_equal"),
    [
        pytest.param(cluster(orders=2), cluster(A_orders=2), True, id="the same"),
        pytest.param(cluster(orders=2), cluster(A_orders=1), True, id="only to be grown"),
        pytest.param(cluster(orders=3), cluster(A_orders=2), False, id="a new partition"),
        pytest.param(cluster(orders=2, new=1), cluster(A_orders=2), False, id="a new topic"),
        pytest.param({}, cluster(A_orders=2), False, id="a topic less"),
        pytest.param(cluster(orders=2), {}, False, id="the remote topic is gone"),
        pytest.param(
            {"orders": Topic("orders", "another id", 2)},
            cluster(A_orders=2),
            False,
            id="recreated on the source",
        ),
        pytest.param(
            cluster(orders=2),
            {"A.orders": Topic("A.orders", "another id", 2)},
            False,
            id="recreated on the target",
        ),
    ],
)
def test_the_fingerprint_tells_whether_a_refresh_changed_the_set(
    source: dict[str, Topic], target: dict[str, Topic], *, is_equal: bool
) -> None:
    running = plan_topics(flow_config(), cluster(orders=2), cluster(A_orders=2))

    now = plan_topics(flow_config(), source, target)

    assert (now.fingerprint == running.fingerprint) is is_equal


def writes(**topics: str) -> TopicPlan:
    return TopicPlan(topics, (), {}, (), {})


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        pytest.param({AB: writes(t="A.t"), CB: writes(t="C.t")}, [], id="no conflict"),
        pytest.param(
            {AB: writes(t="t"), CB: writes(t="t")},
            ["flows A->B, C->B would all write topic t of cluster B"],
            id="two writers",
        ),
        pytest.param({AB: writes(t="t"), BA: writes(u="u")}, [], id="both ways, different topics"),
        pytest.param(
            {AB: writes(t="t"), BA: writes(t="t")},
            ["records would go in a circle for ever: A:t -> B:t -> A:t"],
            id="in a circle",
        ),
        pytest.param(
            {AB: writes(t="t"), Flow("B", "C"): writes(t="t"), Flow("C", "A"): writes(t="t")},
            ["records would go in a circle for ever: "],
            id="in a circle of three",
        ),
        pytest.param(
            {AB: writes(t="x"), Flow("A", "D"): writes(u="x")},
            ["flows A->B, A->D would all write topic x of cluster B"],
            id="one cluster under two aliases",
        ),
    ],
)
def test_conflicts(plans: dict[Flow, TopicPlan], expected: list[str]) -> None:
    cluster_ids = {"A": "1", "B": "2", "C": "3", "D": "2"}

    found = conflicts(plans, cluster_ids)

    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))
