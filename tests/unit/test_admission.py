"""A plan runs only if no topic has two writers, and in a mode that fits all admitted plans."""

from threading import Event

import pytest

from replication.app.admission import Admission
from replication.config.tree import FlowConfig
from replication.errors import FlowError, GuardError
from replication.model import TopicPartition
from replication.topics.topic_plan import TopicPlan
from tests.support.settings import parse_settings

CLUSTER_IDS = {"A": "1", "B": "2", "C": "3"}
SETTINGS = {
    "clusters": "A,B,C",
    **{f"{alias}.bootstrap.servers": f"{alias.lower()}:1" for alias in "ABC"},
    "A->B.enabled": "true",
    "C->B.enabled": "true",
}


def configs(mode: str = "auto") -> tuple[FlowConfig, ...]:
    """The flows A->B and C->B."""
    return parse_settings({**SETTINGS, "replication.mode": mode}).flows


def plan(remote: str, partitions: int) -> TopicPlan:
    """A plan for one topic ``t`` of that many partitions."""
    tps = tuple(TopicPartition("t", number) for number in range(partitions))
    return TopicPlan({"t": remote}, (), {}, tps, {"t": "id"})


def test_a_second_writer_is_rejected_and_not_admitted() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 100)
    admission.admit(a_to_b, plan("t", 1), CLUSTER_IDS)

    with pytest.raises(GuardError, match="flows A->B, C->B would all write topic t on cluster B"):
        admission.admit(c_to_b, plan("t", 1), CLUSTER_IDS)

    assert admission.admit(a_to_b, plan("t", 2), CLUSTER_IDS) == "realtime"


def test_a_flow_may_replace_its_own_plan() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 100)
    admission.admit(a_to_b, plan("t", 1), CLUSTER_IDS)
    admission.admit(a_to_b, plan("A.t", 1), CLUSTER_IDS)

    assert admission.admit(c_to_b, plan("t", 1), CLUSTER_IDS) == "realtime"


def test_the_partitions_of_all_flows_share_the_task_slots() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 8)

    assert admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS) == "realtime"
    assert admission.admit(c_to_b, plan("C.t", 1), CLUSTER_IDS) == "microbatch"


def test_the_slots_are_counted_each_time() -> None:
    a_to_b, _ = configs()
    slots = iter([7, 8])
    admission = Admission("4.2.0", lambda: next(slots))

    assert admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS) == "microbatch"
    assert admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS) == "realtime"


def test_a_configured_mode_waits_for_executors_that_replace_lost_ones() -> None:
    a_to_b, _ = configs("realtime")
    slots = iter([2, 8])
    admission = Admission("4.2.0", lambda: next(slots), patience_seconds=60)

    assert admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS) == "realtime"


def test_a_flow_that_may_choose_its_mode_does_not_wait() -> None:
    a_to_b, _ = configs()
    slots = iter([2])
    admission = Admission("4.2.0", lambda: next(slots), patience_seconds=60)

    assert admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS) == "microbatch"


def test_an_old_spark_is_not_waited_for() -> None:
    a_to_b, _ = configs("realtime")
    admission = Admission("4.1.0", lambda: 100, patience_seconds=60)

    with pytest.raises(FlowError, match=r"upgrade Spark"):
        admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS)


def test_a_stop_ends_the_wait_for_task_slots() -> None:
    a_to_b, _ = configs("realtime")
    stop = Event()
    stop.set()
    admission = Admission("4.2.0", lambda: 2, patience_seconds=60)

    admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS, stop)


def test_a_configured_mode_that_does_not_fit_is_an_error() -> None:
    a_to_b, _ = configs("realtime")
    admission = Admission("4.2.0", lambda: 7)

    with pytest.raises(FlowError, match="task slots"):
        admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS)


def test_the_mode_of_an_admitted_plan_follows_the_slots_both_ways() -> None:
    a_to_b, _ = configs()
    slots = [7]
    admission = Admission("4.2.0", lambda: slots[-1])
    modes = [admission.admit(a_to_b, plan("A.t", 6), CLUSTER_IDS)]

    for number in (8, 7):
        slots.append(number)
        modes.append(admission.mode(a_to_b))

    assert modes == ["microbatch", "realtime", "microbatch"]
