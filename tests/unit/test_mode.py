"""Which of Spark's ways to run a query is chosen."""

import pytest

from replication.errors import FlowError
from replication.model import Mode
from replication.spark.mode import choose_mode


@pytest.mark.parametrize(
    ("wanted", "spark", "slots", "partitions", "mode", "reason"),
    [
        pytest.param("auto", "4.2.0", 10, 8, "realtime", "suffice", id="just enough slots"),
        pytest.param("auto", "4.2.0", 9, 8, "microbatch", "10 task slots", id="one too few"),
        pytest.param("auto", "4.1.0", 99, 8, "microbatch", "4.1.0", id="Spark too old"),
        pytest.param("auto", "5.0.0", 99, 8, "realtime", "suffice", id="a later Spark"),
        pytest.param("microbatch", "4.2.0", 99, 8, "microbatch", "configured", id="asked for"),
        pytest.param("drain", "4.0.1", 1, 8, "drain", "configured", id="a drain needs nothing"),
    ],
)
def test_choose_mode(
    wanted: Mode, spark: str, slots: int, partitions: int, mode: Mode, reason: str
) -> None:
    choice = choose_mode(wanted, spark=spark, slots=slots, partitions=partitions)

    assert choice.mode == mode
    assert reason in choice.reason


def test_realtime_that_cannot_be_had_is_refused_and_not_replaced() -> None:
    with pytest.raises(FlowError, match=r"10 task slots.*there are 9; use auto"):
        choose_mode("realtime", spark="4.2.0", slots=9, partitions=8)
