"""Background queries wait for the first records of all flows, and not for ever."""

from threading import Event, Thread

import pytest

from replication.flows.supervised import HeadStart
from replication.model import Flow
from tests.support.waiting import wait_until

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
MINUTES = 600.0


def test_it_is_over_when_every_flow_has_ended_it() -> None:
    head_start = HeadStart([FLOW, OTHER], MINUTES)

    head_start.end(FLOW)
    head_start.end(FLOW)
    assert not head_start.is_over
    head_start.end(OTHER)
    assert head_start.is_over


def test_without_a_flow_nobody_waits() -> None:
    HeadStart((), MINUTES).await_end(Event())


def test_a_flow_that_never_ends_it_holds_nobody_up_for_long() -> None:
    head_start = HeadStart([FLOW], 0.05)

    head_start.await_end(Event())

    assert head_start.is_over


@pytest.mark.parametrize("release", ["end", "stop"])
def test_who_waits_goes_on_at_the_end_or_at_a_stop(release: str) -> None:
    head_start, stop = HeadStart([FLOW], MINUTES), Event()
    waiting = Thread(target=head_start.await_end, args=(stop,), daemon=True)
    waiting.start()
    assert waiting.is_alive()
    if release == "end":
        head_start.end(FLOW)
    else:
        stop.set()
    wait_until(lambda: not waiting.is_alive(), 30)
    assert not waiting.is_alive()


def test_that_of_a_standby_begins_with_its_first_flow() -> None:
    head_start = HeadStart([FLOW], 0.0, is_standby=True)

    assert not head_start.is_over
    head_start.begin()
    assert head_start.is_over
