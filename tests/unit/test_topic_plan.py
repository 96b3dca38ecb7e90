"""What to create and to grow for a flow: topics in, plan out."""

from dataclasses import replace

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.mm2.policy import PrefixPolicy
from replication.model import NewTopic, Topic, TopicPartition
from replication.topics.topic_plan import TopicPlan, plan_topics


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
    )


@pytest.mark.parametrize(
    ("remote_partitions", "grow"),
    [
        pytest.param(2, {"A.orders": 3}, id="fewer partitions: grows"),
        pytest.param(3, {}, id="as many: nothing to do"),
        pytest.param(4, {}, id="more: left unchanged"),
    ],
)
def test_an_existing_remote_topic_grows_if_it_is_too_small(
    remote_partitions: int, grow: dict[str, int]
) -> None:
    plan = plan_topics(flow_config(), cluster(orders=3), cluster(A_orders=remote_partitions))

    assert (plan.create, plan.grow) == ((), grow)
    assert plan.partitions == tuple(TopicPartition("orders", number) for number in range(3))
    assert plan.remote_ids == {"A.orders": "id of A.orders"}


def test_partitions_are_sorted_by_topic_and_number() -> None:
    plan = plan_topics(flow_config(), cluster(b=1, a=11), {})

    assert plan.partitions == tuple(sorted(plan.partitions))
    assert [str(tp) for tp in plan.partitions][-2:] == ["a-10", "b-0"]


def test_topics_that_came_from_the_target_are_not_sent_back() -> None:
    plan = plan_topics(flow_config(), cluster(orders=1, B_orders=1, __internal=1), {})

    assert dict(plan.topics) == {"orders": "A.orders"}


def test_a_filter_that_matches_nothing_gives_an_empty_plan() -> None:
    plan = plan_topics(flow_config(topics="nothing"), cluster(orders=1), {})

    assert plan == TopicPlan({}, (), {}, (), {})


def test_topics_with_one_remote_name_are_not_replicated_and_the_others_are() -> None:
    config = replace(flow_config(), policy=_OneName())

    plan = plan_topics(config, cluster(a=1, b=1, c=1, other=1), {})

    assert dict(plan.topics) == {"other": "A.other"}
    assert {tp.topic for tp in plan.partitions} == {"other"}
    assert plan.rejected == dict.fromkeys(
        "abc",
        "topics a, b, c would all be written to same; exclude all but one with topics.exclude, or "
        "choose another replication policy or separator",
    )


class _OneName(PrefixPolicy):
    """A policy of the kind a user may write: short names all become the same remote name."""

    def remote_topic(self, source: str, topic: str) -> str:
        return "same" if len(topic) == 1 else f"{source}.{topic}"


@pytest.mark.parametrize(
    ("source", "target", "is_equal"),
    [
        pytest.param(cluster(orders=2), cluster(A_orders=2), True, id="the same"),
        pytest.param(cluster(orders=2), cluster(A_orders=1), True, id="grown only"),
        pytest.param(cluster(orders=3), cluster(A_orders=2), False, id="a new partition"),
        pytest.param(cluster(orders=2, new=1), cluster(A_orders=2), False, id="a new topic"),
        pytest.param({}, cluster(A_orders=2), False, id="a topic less"),
        pytest.param(cluster(orders=2), {}, False, id="the remote topic was deleted"),
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
def test_the_fingerprint_changes_with_the_replicated_partitions(
    source: dict[str, Topic], target: dict[str, Topic], *, is_equal: bool
) -> None:
    running = plan_topics(flow_config(), cluster(orders=2), cluster(A_orders=2))

    now = plan_topics(flow_config(), source, target)

    assert (now.fingerprint == running.fingerprint) is is_equal


def test_a_plan_without_a_topic_is_the_plan_of_the_others() -> None:
    config = flow_config(topics="a,b,c")
    both = plan_topics(config, cluster(a=2, b=2, c=1), cluster(A_a=1, A_b=1))

    assert both.without({"b", "c"}) == plan_topics(config, cluster(a=2), cluster(A_a=1))


def planned(**partitions: int) -> TopicPlan:
    """The plan for these topics, whose remote topics exist."""
    remote = cluster(**{f"A_{name}": count for name, count in partitions.items()})
    return plan_topics(flow_config(), cluster(**partitions), remote)


def test_a_new_topic_and_a_new_partition_are_beyond_the_running_plan() -> None:
    added = planned(orders=3, users=1).beyond(planned(orders=2))

    assert added is not None
    assert added.partitions == (TopicPartition("orders", 2), TopicPartition("users", 0))
    assert added.topics == {"orders": "A.orders", "users": "A.users"}


def test_only_what_is_added_is_beyond_the_running_plan() -> None:
    added = planned(orders=2, users=1).beyond(planned(orders=2))

    assert added is not None
    assert (added.topics, added.partitions) == ({"users": "A.users"}, (TopicPartition("users", 0),))


@pytest.mark.parametrize(
    "refreshed",
    [
        pytest.param(planned(orders=2), id="a topic is gone"),
        pytest.param(planned(orders=1, users=1), id="a partition is gone"),
        pytest.param(
            replace(planned(orders=2, users=1), source_ids={"orders": "new", "users": "new"}),
            id="a source topic was created again",
        ),
        pytest.param(
            replace(planned(orders=2, users=1), remote_ids={"A.orders": "new"}),
            id="a remote topic was created again",
        ),
    ],
)
def test_nothing_is_beyond_a_plan_that_no_longer_holds(refreshed: TopicPlan) -> None:
    assert refreshed.beyond(planned(orders=2, users=1)) is None
