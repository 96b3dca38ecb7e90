"""Signals that stop a job which receives them itself, as in a container or a notebook's driver."""

import signal
import threading
from collections.abc import Collection

from replication.log import Log

log = Log(__name__)


def stop_on_signals(stops: Collection[threading.Event]) -> None:
    """Sets *stops* on SIGTERM and SIGINT."""

    def stop(number: int, _frame: object) -> None:
        log.info("stopping_on_signal", signal=signal.Signals(number).name)
        for event in stops:
            event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
