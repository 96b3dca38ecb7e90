"""Signals that stop a job which receives them itself, as in a container or a notebook's driver."""

import signal
import threading
from collections.abc import Collection

from replication.log import Log

log = Log(__name__)


def stop_on_signals(stops: Collection[threading.Event]) -> None:
    """Sets *stops* on SIGTERM and SIGINT, which only a main thread can catch."""

    def stop(number: int, _frame: object) -> None:
        log.info("stopping_on_signal", signal=signal.Signals(number).name)
        for event in stops:
            event.set()

    if threading.current_thread() is not threading.main_thread():
        return  # in a notebook: its own cancel button ends the job
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
