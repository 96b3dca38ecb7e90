"""Which of Spark's modes is chosen, and how many task slots a local Spark gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.errors import FlowError
from replication.flows.replicate.generations import ROOM_FOR_TURNS
from replication.model import Mode
from replication.spark.mode import (
    HEAP_MB_PER_TASK,
    LOCAL_BATCH_SLOTS,
    LOCAL_SPARE_SLOTS,
    MOST_TASKS,
    Continuous,
    ModeChoice,
    SlotsError,
    choose_mode,
    few_files,
    local_slots,
    most_continuous,
    small_heap,
)

EIGHT = Continuous(partitions=8)
ENOUGH = "10 task slots suffice for 8 partitions"
TOO_FEW = (
    "Real-Time Mode needs 10 task slots (8 partitions and 2 for bookkeeping), 9 are available; "
    "add slots"
)
TOO_OLD = "Real-Time Mode needs Spark 4.2, this is Spark 4.1.0; upgrade Spark"


@pytest.mark.parametrize(
    ("wanted", "spark", "slots", "expected"),
    [
        pytest.param("auto", "4.2.0", 10, ModeChoice("realtime", ENOUGH), id="just enough slots"),
        pytest.param(
            "auto", "4.2.0", 9, ModeChoice("microbatch", TOO_FEW, True), id="one slot too few"
        ),
        pytest.param("auto", "4.1.0", 10, ModeChoice("microbatch", TOO_OLD), id="Spark too old"),
        pytest.param("auto", "5.0.0", 10, ModeChoice("realtime", ENOUGH), id="a later Spark"),
        pytest.param(
            "realtime", "4.2.0", 10, ModeChoice("realtime", ENOUGH), id="realtime configured"
        ),
        pytest.param(
            "microbatch", "4.2.0", 10, ModeChoice("microbatch", "as configured"), id="as configured"
        ),
        pytest.param(
            "drain", "4.0.1", 1, ModeChoice("drain", "as configured"), id="a drain needs no slots"
        ),
    ],
)
def test_choose_mode(wanted: Mode, spark: str, slots: int, expected: ModeChoice) -> None:
    assert choose_mode(wanted, EIGHT, spark=spark, slots=slots) == expected


def test_a_configured_realtime_is_refused_and_not_replaced() -> None:
    with pytest.raises(FlowError) as refusal:
        choose_mode("realtime", EIGHT, spark="4.2.0", slots=9)

    assert str(refusal.value) == (
        "replication.mode=realtime needs 10 task slots (8 partitions and 2 for bookkeeping), "
        "9 are available; add slots, or use auto"
    )


@pytest.mark.parametrize(
    ("needs", "slots", "mode", "share"),
    [
        pytest.param(Continuous(sharing=1), 10, "realtime", 8, id="two are kept free"),
        pytest.param(Continuous(sharing=1), 3, "realtime", 1, id="few slots"),
        pytest.param(Continuous(sharing=1), 2, "realtime", 1, id="the least"),
        pytest.param(Continuous(sharing=1), 1, "microbatch", 1, id="nothing would be left"),
        pytest.param(Continuous(sharing=1), 0, "microbatch", 1, id="no executor yet"),
        pytest.param(Continuous(sharing=3), 20, "realtime", 6, id="flows share them"),
        pytest.param(Continuous(8, 1), 14, "realtime", 4, id="beside Spark's source"),
        pytest.param(Continuous(8, 1), 10, "microbatch", 1, id="too few beside Spark's source"),
    ],
)
def test_flows_with_the_shared_source_take_the_slots_that_there_are(
    needs: Continuous, slots: int, mode: Mode, share: int
) -> None:
    assert choose_mode("auto", needs, spark="4.2.0", slots=slots).mode == mode
    assert needs.share(slots) == share


def test_no_number_of_slots_is_refused_that_holds_a_task_and_one_more() -> None:
    needs = Continuous(sharing=1)

    assert choose_mode("realtime", needs, spark="4.2.0", slots=2).mode == "realtime"
    with pytest.raises(SlotsError) as refusal:
        choose_mode("realtime", needs, spark="4.2.0", slots=1)

    assert str(refusal.value) == (
        "replication.mode=realtime needs 2 task slots (1 flows with the shared source and 1 for "
        "bookkeeping), 1 are available; add slots, or use auto"
    )


HEAP_MB = 2048
MOST = HEAP_MB // HEAP_MB_PER_TASK
"""Partitions that `auto` copies in Real-Time Mode."""


@pytest.mark.parametrize("partitions", [0, 3, MOST // 2 - LOCAL_SPARE_SLOTS])
def test_a_local_spark_has_room_for_twice_the_partitions(partitions: int) -> None:
    slots = local_slots({"auto": partitions}, MOST)

    choice = choose_mode("auto", Continuous(2 * partitions), spark="4.2.0", slots=slots)
    assert choice.mode == "realtime"


@given(st.integers(1, 20), st.integers(1, MOST_TASKS))
def test_a_local_spark_lets_the_tasks_of_each_flow_take_turns(flows: int, tasks: int) -> None:
    slots = local_slots({"auto": flows * tasks}, MOST)

    assert Continuous(sharing=flows).share(slots) >= ROOM_FOR_TURNS * tasks


@pytest.mark.parametrize(
    ("partitions", "heap_mb", "mode"),
    [
        pytest.param(MOST, HEAP_MB, "realtime", id="the heap is large enough"),
        pytest.param(MOST + 1, HEAP_MB, "microbatch", id="it is too small"),
        pytest.param(MOST + 1, 2 * HEAP_MB, "realtime", id="a larger one"),
    ],
)
def test_many_partitions_run_in_realtime_mode_where_the_heap_has_room_for_them(
    partitions: int, heap_mb: int, mode: Mode
) -> None:
    slots = local_slots({"auto": partitions}, most_continuous(heap_mb))

    choice = choose_mode("auto", Continuous(partitions), spark="4.2.0", slots=slots)
    assert choice.mode == mode


def test_a_configured_realtime_mode_gets_its_slots_whatever_the_heap() -> None:
    slots = local_slots({"realtime": 2 * MOST}, MOST)

    choice = choose_mode("realtime", Continuous(2 * MOST), spark="4.2.0", slots=slots)
    assert choice.mode == "realtime"


@pytest.mark.parametrize("mode", ["auto", "microbatch", "drain"])
def test_few_tasks_of_batches_run_at_once(mode: Mode) -> None:
    slots = local_slots({mode: MOST + 1}, MOST)

    assert slots == LOCAL_BATCH_SLOTS + LOCAL_SPARE_SLOTS


@pytest.mark.parametrize(
    ("mode", "partitions", "text"),
    [
        pytest.param("auto", MOST, "", id="the heap is large enough"),
        pytest.param("auto", MOST + 1, "auto takes micro-batches: ", id="too small"),
        pytest.param("realtime", MOST + 1, "the heap may not suffice: ", id="no choice"),
        pytest.param("drain", 2 * MOST, "", id="batches need little"),
    ],
)
def test_a_heap_that_is_too_small_is_named(mode: Mode, partitions: int, text: str) -> None:
    warning = small_heap({mode: partitions}, HEAP_MB)

    assert warning.partition("on one machine")[0] == text


def test_batches_leave_the_slots_of_realtime_mode_alone() -> None:
    slots = local_slots({"auto": MOST, "drain": 5}, MOST)

    assert slots == MOST + 5 + LOCAL_SPARE_SLOTS


def test_a_platform_may_have_realtime_mode_under_a_lower_version() -> None:
    choice = choose_mode("realtime", EIGHT, spark="3.5.2", slots=10, has_realtime=True)

    assert choice == ModeChoice("realtime", ENOUGH)


@pytest.mark.parametrize(
    ("mode", "partitions", "files", "suffices"),
    [
        pytest.param("auto", 60, 620, False, id="too few for any mode"),
        pytest.param("auto", 60, 1024, True, id="a common limit"),
        pytest.param("auto", 2000, 1024, True, id="micro-batches keep few consumers"),
        pytest.param("realtime", 2000, 1024, False, id="Real-Time Mode has one for each"),
        pytest.param("realtime", 2000, None, True, id="no limit"),
    ],
)
def test_open_files_must_suffice_for_the_partitions(
    mode: Mode,
    partitions: int,
    files: int | None,
    suffices: bool,  # noqa: FBT001 - a table's column
) -> None:
    problem = few_files({mode: partitions}, 1, files)

    assert (problem == "") == suffices
    assert suffices or f"may open {files}: raise the hard limit (ulimit -Hn" in problem


def test_auto_takes_micro_batches_where_open_files_are_few() -> None:
    most = most_continuous(HEAP_MB, 1, 1024)
    slots = local_slots({"auto": 200}, most)

    choice = choose_mode("auto", Continuous(200), spark="4.2.0", slots=slots)
    assert choice.mode == "microbatch"
    assert most_continuous(HEAP_MB, 1, None) == MOST
