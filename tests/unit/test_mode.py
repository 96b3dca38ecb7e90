"""Which of Spark's modes is chosen, and how many task slots a local Spark gets."""

import pytest

from replication.errors import FlowError
from replication.model import Mode
from replication.spark.mode import Choice, choose_mode, local_slots

ENOUGH = "10 task slots suffice for 8 partitions"
TOO_FEW = (
    "Real-Time Mode needs 10 task slots (8 partitions and 2 for bookkeeping), 9 are available; "
    "add slots"
)
TOO_OLD = "Real-Time Mode needs Spark 4.2, this is Spark 4.1.0; upgrade Spark"


@pytest.mark.parametrize(
    ("wanted", "spark", "slots", "expected"),
    [
        pytest.param("auto", "4.2.0", 10, Choice("realtime", ENOUGH), id="just enough slots"),
        pytest.param("auto", "4.2.0", 9, Choice("microbatch", TOO_FEW), id="one slot too few"),
        pytest.param("auto", "4.1.0", 10, Choice("microbatch", TOO_OLD), id="Spark too old"),
        pytest.param("auto", "5.0.0", 10, Choice("realtime", ENOUGH), id="a later Spark"),
        pytest.param("realtime", "4.2.0", 10, Choice("realtime", ENOUGH), id="realtime configured"),
        pytest.param(
            "microbatch", "4.2.0", 10, Choice("microbatch", "as configured"), id="as configured"
        ),
        pytest.param(
            "drain", "4.0.1", 1, Choice("drain", "as configured"), id="a drain needs no slots"
        ),
    ],
)
def test_choose_mode(wanted: Mode, spark: str, slots: int, expected: Choice) -> None:
    assert choose_mode(wanted, spark=spark, slots=slots, partitions=8) == expected


def test_a_configured_realtime_is_refused_and_not_replaced() -> None:
    with pytest.raises(FlowError) as refusal:
        choose_mode("realtime", spark="4.2.0", slots=9, partitions=8)

    assert str(refusal.value) == (
        "replication.mode=realtime needs 10 task slots (8 partitions and 2 for bookkeeping), "
        "9 are available; add slots, or use auto"
    )


@pytest.mark.parametrize(("partitions", "slots"), [(0, 8), (3, 14)])
def test_a_local_spark_has_room_for_twice_the_partitions(partitions: int, slots: int) -> None:
    assert local_slots(partitions) == slots

    choice = choose_mode("realtime", spark="4.2.0", slots=slots, partitions=2 * partitions)
    assert choice.mode == "realtime"


def test_a_platform_may_have_realtime_mode_under_a_lower_version() -> None:
    choice = choose_mode("realtime", spark="3.5.2", slots=10, partitions=8, has_realtime=True)

    assert choice == Choice("realtime", ENOUGH)
