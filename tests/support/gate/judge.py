"""In each process that runs tests: limits of time, and what their reports say of them."""

import signal
import threading
from collections.abc import Generator
from dataclasses import asdict, dataclass
from math import sqrt
from time import time as real_time  # some tests set the clock
from typing import Any, Final

import pytest
import pytest_timeout

from tests.support.gate.clock import Limit
from tests.support.waiting import Late, OutOfTime, missed_limit

LOOK_SECONDS: Final = 5.0  # between two looks at the limit of a test
TEARDOWN_SECONDS: Final = 60.0

LIMIT: Final = pytest.StashKey[Limit]()
NOT_RUN: Final = pytest.StashKey[bool]()


@dataclass(frozen=True, slots=True)
class Missed:
    """What a report says of a missed limit."""

    text: str
    share: float
    seconds: float
    is_out_of_time: bool


class Judge:
    """Hooks of pytest."""

    def __init__(self, until: float | None, hard_end: float | None) -> None:
        self._until, self._hard_end = until, hard_end

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures each test."""
        item.stash[LIMIT] = Limit(0)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Does not start a test once the time of the run is nearly over."""
        if self._until is not None and real_time() > self._until:
            item.stash[NOT_RUN] = True
            pytest.skip("not run: the time for the tests is used up")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tells the process that prints: xdist hands on what a report has.

        The seconds of a test are between those of the machine, in which timers of brokers do not
        run slower, and those of the wall. On a calm machine all three are nearly the same.
        """
        report = yield
        limit, error = item.stash[LIMIT], call.excinfo.value if call.excinfo else None
        late = missed_limit(error, limit) if report.failed else None
        said: dict[str, Any] = {"seconds": sqrt(limit.given_seconds * limit.wall_seconds)}
        if late:
            is_out = isinstance(late, OutOfTime)
            said["missed"] = asdict(Missed(str(late.msg), late.share, late.seconds, is_out))
        if report.skipped and item.stash.get(NOT_RUN, False):
            said["not_run"] = True
        report.__dict__["gate"] = said
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(
        self, item: pytest.Item, settings: pytest_timeout.Settings
    ) -> bool:
        """Ends a test whose limit is over, counted in the machine's time."""
        if threading.current_thread() is not threading.main_thread():
            return False
        alarm = Alarm(item, settings.timeout, self._hard_end)
        item.cancel_timeout = alarm.cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
        return True


class Alarm:
    """Ends a test by `Late`; then its fixtures have `TEARDOWN_SECONDS`, and are ended, too."""

    def __init__(self, item: pytest.Item, seconds: float, hard_end: float | None) -> None:
        self._terminal = item.config.get_terminal_writer()
        self._limit, self._hard_end = Limit(seconds, patience=1), hard_end
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)

    def _look(self, *_: object) -> None:
        is_out = self._hard_end is not None and real_time() > self._hard_end
        if not (self._limit.is_over or is_out):
            return
        limit, self._limit = self._limit, Limit(TEARDOWN_SECONDS, patience=1)
        if is_out:
            self._hard_end = real_time() + TEARDOWN_SECONDS
            raise OutOfTime("the time of the whole run is over", limit)
        pytest_timeout.dump_stacks(self._terminal)
        raise Late("the test has not ended", limit)

    def cancel(self) -> None:
        """The test has ended."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
