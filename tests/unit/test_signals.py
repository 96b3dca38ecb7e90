"""A job that receives signals itself stops cleanly on SIGTERM and SIGINT."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from replication.app.process import stop_on_signals
from tests.support.said import SaidLines
from tests.support.waiting import wait_until

SIGNALS = signal.SIGTERM, signal.SIGINT


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Puts the handlers of the test run back."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_every_flow(number: signal.Signals, said: SaidLines) -> None:
    stops = [threading.Event(), threading.Event()]
    stop_on_signals(stops)

    os.kill(os.getpid(), number)

    wait_until(lambda: all(stop.is_set() for stop in stops), 10)
    assert [line.fields for line in said.of("stopping_on_signal")] == [{"signal": number.name}]
