"""Waiting for a condition that has no event to wait for."""

import time
from collections.abc import Callable

import pytest

CHECK_SECONDS = 0.05

PATIENCE = 6
"""Limits are for an idle machine with two cores. A shared one may be so many times slower."""


def wait_until(condition: Callable[[], object], timeout_seconds: float) -> None:
    """Returns once *condition* is true; fails the test after `PATIENCE` times *timeout_seconds*.

    ``wait_until(lambda: lag() == 0, 30)``. False and None mean: not yet.
    """
    deadline = time.monotonic() + PATIENCE * timeout_seconds
    last: object = None
    while time.monotonic() < deadline:
        last = condition()
        if last:
            return
        time.sleep(CHECK_SECONDS)
    code = getattr(condition, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(condition)
    pytest.fail(f"still {last!r} after {PATIENCE * timeout_seconds} s: the condition at {where}")
