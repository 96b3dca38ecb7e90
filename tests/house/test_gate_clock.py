"""The clock that runs as fast as the machine does, and the limits that it measures."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support.gate.clock import Limit, Machine, MachineClock, look, share
from tests.support.running_process import ProcessError
from tests.support.waiting import Late, in_time, missed_limit, wait_until

CORES = 2


class Wall:
    """A wall clock that a test turns."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("took", "now", "expected"),
    [
        pytest.param(0.1, Machine(), 1.0, id="idle"),
        pytest.param(0.1, Machine(runnable=2), 1.0, id="a core each"),
        pytest.param(0.1, Machine(runnable=20), 0.1, id="ten tasks for each core"),
        pytest.param(1.0, Machine(), 0.1, id="woken too late"),
        pytest.param(0.1, Machine(1, busy=10, stolen=30), 0.25, id="the host takes cores"),
        pytest.param(0.1, Machine(4, busy=10, stolen=10), 0.25, id="the host and other tasks"),
        pytest.param(0.05, Machine(), 1.0, id="woken too early"),
    ],
)
def test_the_share_of_a_core(took: float, now: Machine, expected: float) -> None:
    assert share(0.1, took, CORES, Machine(), now) == pytest.approx(expected)


def test_linux_says_what_wants_to_run(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 30 900 9 1 2 40 0 0\ncpu0 1 2\nctxt 1\nprocs_running 7\n")

    assert look(stat) == Machine(runnable=7, busy=153, stolen=40)
    assert look(tmp_path / "missing") == Machine()


def clock_at(share_of_a_core: float, seconds: float) -> tuple[MachineClock, Limit]:
    """A clock on which a limit of 10 s began *seconds* ago by the wall."""
    wall = Wall()
    clock = MachineClock(wall)
    clock.now()
    limit = Limit(10, clock, patience=1)
    for _ in range(round(seconds * 10)):
        wall.seconds += 0.1
        clock.tick(Machine(runnable=round(CORES / share_of_a_core)))
    return clock, limit


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: CORES)


@pytest.mark.parametrize(
    ("share_of_a_core", "seconds", "is_over"),
    [
        (1, 9, False),
        (1, 10.2, True),
        (0.1, 90, False),
        (0.1, 102, True),
        (0.01, 190, False),
        (0.01, 200.2, True),  # at twenty times, no machine is waited for
    ],
)
def test_a_limit_counts_what_the_machine_gives(
    share_of_a_core: float, seconds: float, *, is_over: bool
) -> None:
    _, limit = clock_at(share_of_a_core, seconds)

    assert limit.is_over == is_over
    assert limit.share == pytest.approx(share_of_a_core, rel=0.2)


def test_a_condition_that_stays_false_is_late_and_says_where_it_stands() -> None:
    with pytest.raises(Late, match=r"still 0: the condition at .*test_gate_clock\.py:\d+ \(limit"):
        wait_until(lambda: 0, 0.1)


def test_a_block_that_takes_too_long_is_late() -> None:
    with in_time(60, "nothing"):
        pass
    with pytest.raises(Late, match="the block took longer"), in_time(0, "the block"):
        pass


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_late"),
    [
        (AssertionError("a record is missing"), False),
        (ProcessError("ended with exit code 1"), False),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), False),
        (Late("not in time", Limit(1)), True),
        (caused(ProcessError("did not end"), Late("not in time", Limit(1))), True),
        (caused(AssertionError("no answer"), AssertionError("wrong")), False),
        (TimeoutError("a socket"), True),
        (subprocess.TimeoutExpired("java", 10), True),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), True),  # noqa: SLF001 - its public name
    ],
)
def test_a_missed_limit_is_told_from_a_wrong_result(error: BaseException, *, is_late: bool) -> None:
    assert (missed_limit(error, Limit(1)) is not None) == is_late
