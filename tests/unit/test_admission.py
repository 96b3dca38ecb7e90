"""A plan runs only if no topic has two writers, and in a mode that fits all admitted plans."""

from collections.abc import Callable
from threading import Event

import pytest

from replication.app.admission import Admission
from replication.config.tree import FlowConfig
from replication.errors import FlowError, SetupError
from replication.model import Mode, TopicPartition
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


def sharing(
    slots: Callable[[], int], patience_seconds: float = 0, mode: str = "auto", spark: str = "4.2.0"
) -> tuple[Admission, tuple[FlowConfig, ...]]:
    """An admission of the flows A->B and C->B with the shared source, and these flows."""
    settings = {**SETTINGS, "replication.mode": mode, "replication.source": "shared"}
    flows = parse_settings(settings).flows
    return Admission(spark, slots, patience_seconds, flows=flows), flows


def admit(
    admission: Admission, config: FlowConfig, of: TopicPlan, stop: Event | None = None
) -> Mode:
    """The mode of a plan without conflicts."""
    assert admission.reserve(config, of, CLUSTER_IDS) == {}
    return admission.admit(config, stop)


def test_a_topic_that_another_flow_writes_is_left_out_and_takes_no_slots() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 7)
    admit(admission, a_to_b, plan("t", 4))

    (text,) = admission.reserve(c_to_b, plan("t", 4), CLUSTER_IDS).values()

    assert text.startswith("flow A->B writes topic t on cluster B, to which C->B would copy t")
    assert admission.admit(c_to_b) == "realtime"
    assert admit(admission, a_to_b, plan("t", 5)) == "realtime"


def test_a_topic_is_free_for_others_once_its_flow_has_left_it_out() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 100)
    admit(admission, a_to_b, plan("t", 1))
    admit(admission, a_to_b, plan("A.t", 1))

    assert admit(admission, c_to_b, plan("t", 1)) == "realtime"


def test_the_partitions_of_all_flows_share_the_task_slots() -> None:
    a_to_b, c_to_b = configs()
    admission = Admission("4.2.0", lambda: 8)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "realtime"
    assert admit(admission, c_to_b, plan("C.t", 1)) == "microbatch"


def test_the_partitions_of_a_drain_take_no_slots_of_realtime_mode() -> None:
    (a_to_b, _), (_, c_to_b) = configs("drain"), configs()
    admission = Admission("4.2.0", lambda: 8)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "drain"
    assert admit(admission, c_to_b, plan("C.t", 6)) == "realtime"


def test_the_slots_are_counted_each_time() -> None:
    a_to_b, _ = configs()
    slots = iter([7, 8])
    admission = Admission("4.2.0", lambda: next(slots))

    assert admit(admission, a_to_b, plan("A.t", 6)) == "microbatch"
    assert admit(admission, a_to_b, plan("A.t", 6)) == "realtime"


def test_a_configured_mode_waits_for_executors_that_replace_lost_ones() -> None:
    a_to_b, _ = configs("realtime")
    slots = iter([2, 8])
    admission = Admission("4.2.0", lambda: next(slots), patience_seconds=60)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "realtime"


def test_a_flow_that_may_choose_its_mode_does_not_wait() -> None:
    a_to_b, _ = configs()
    slots = iter([2])
    admission = Admission("4.2.0", lambda: next(slots), patience_seconds=60)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "microbatch"


def test_an_old_spark_is_not_waited_for() -> None:
    a_to_b, _ = configs("realtime")
    admission = Admission("4.1.0", lambda: 100, patience_seconds=60)

    with pytest.raises(FlowError, match=r"upgrade Spark"):
        admit(admission, a_to_b, plan("A.t", 6))


def test_a_stop_ends_the_wait_for_task_slots() -> None:
    a_to_b, _ = configs("realtime")
    stop = Event()
    stop.set()
    admission = Admission("4.2.0", lambda: 2, patience_seconds=60)

    admit(admission, a_to_b, plan("A.t", 6), stop)


def test_a_configured_mode_that_does_not_fit_is_an_error() -> None:
    a_to_b, _ = configs("realtime")
    admission = Admission("4.2.0", lambda: 7)

    with pytest.raises(FlowError, match="task slots"):
        admit(admission, a_to_b, plan("A.t", 6))


def test_the_mode_of_an_admitted_plan_follows_the_slots_both_ways() -> None:
    a_to_b, _ = configs()
    slots = [7]
    admission = Admission("4.2.0", lambda: slots[-1])
    modes = [admit(admission, a_to_b, plan("A.t", 6))]

    for number in (8, 7):
        slots.append(number)
        modes.append(admission.mode(a_to_b))

    assert modes == ["microbatch", "realtime", "microbatch"]


def test_no_number_of_partitions_needs_more_slots_where_tasks_share_them() -> None:
    admission, (a_to_b, c_to_b) = sharing(lambda: 4)

    assert admit(admission, a_to_b, plan("A.t", 5000)) == "realtime"
    assert admit(admission, c_to_b, plan("C.t", 5000)) == "realtime"


def test_flows_with_the_shared_source_wait_for_the_first_executor() -> None:
    slots = iter([0, 0, 3])
    admission, (a_to_b, _) = sharing(lambda: next(slots), patience_seconds=60)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "realtime"


def test_they_run_in_micro_batches_without_a_slot_for_each() -> None:
    admission, (a_to_b, _) = sharing(lambda: 2)

    assert admit(admission, a_to_b, plan("A.t", 6)) == "microbatch"


def test_an_old_spark_is_not_waited_for_with_the_shared_source_either() -> None:
    admission, (a_to_b, _) = sharing(lambda: 2, patience_seconds=60, spark="4.1.0")

    assert admit(admission, a_to_b, plan("A.t", 6)) == "microbatch"


def test_drains_take_no_share_of_the_slots() -> None:
    admission, (a_to_b, _) = sharing(lambda: 2, mode="drain")

    assert admit(admission, a_to_b, plan("A.t", 6)) == "drain"


def test_a_source_that_cannot_be_had_is_an_error_before_a_flow_starts() -> None:
    settings = {**SETTINGS, "replication.source": "shared"}

    with pytest.raises(SetupError, match=r"replication\.source=shared is impossible here: no jar"):
        Admission("4.2.0", lambda: 8, flows=parse_settings(settings).flows, obstacle="no jar")
