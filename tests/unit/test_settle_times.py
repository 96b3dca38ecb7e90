"""How long a log must stand still before positions are read from it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replication.model import TopicPartition
from replication.positions.measure import settled_log_ends
from tests.support.mirror_files import FLOW

REMOTE = TopicPartition("A.t", 0)


@pytest.fixture
def end_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Any]:
    """A target whose log gets one more record at a time, by a clock that only sleeps move."""
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    time = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr("replication.positions.measure.time", time)
    return lambda at: SimpleNamespace(log_ends=lambda _: {REMOTE: 6 if clock.now >= at else 5})


def test_where_executors_report_a_short_standstill_is_enough(
    end_at: Callable[[float], Any],
) -> None:
    assert settled_log_ends(end_at(0.7), [REMOTE], None, FLOW).ends == {REMOTE: 5}


def test_what_a_broker_may_still_append_is_waited_for(end_at: Callable[[float], Any]) -> None:
    target = end_at(0.7)

    settled = settled_log_ends(target, [REMOTE], None, FLOW, is_reported_only=False)

    assert settled.ends == {REMOTE: 6}
