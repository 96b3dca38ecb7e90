"""Waiting for a condition that has no event to wait for, and limits of time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import TimeoutExpired
from typing import Final

from _pytest.outcomes import Failed
from confluent_kafka import KafkaError, KafkaException

from tests.support.gate.clock import Limit

CHECK_SECONDS = 0.05
TIMEOUTS: Final = {
    KafkaError._TIMED_OUT,  # noqa: SLF001 - its public name
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - its public name
    KafkaError.REQUEST_TIMED_OUT,
}


class Late(Failed):
    """A limit of time was missed: by the code under test, or by a machine that hardly ran it.

    Args:
        what: Was not so in time.
        limit: The limit, which is over.
    """

    def __init__(self, what: str, limit: Limit) -> None:
        self.share, self.seconds = limit.share, limit.wall_seconds
        super().__init__(
            f"{what} (limit {limit.seconds:g} s; waited for {self.seconds:.1f} s, in which the "
            f"machine gave {self.share:.2f} of a core)"
        )


class OutOfTime(Late):
    """The whole run is over; the test that runs is told nothing else."""


def wait_until(condition: Callable[[], object], timeout_seconds: float) -> None:
    """Returns once *condition* is true; `Late` after *timeout_seconds* of an idle machine.

    ``wait_until(lambda: lag() == 0, 30)``. False and None mean: not yet.
    """
    limit = Limit(timeout_seconds)
    while not (last := condition()):
        if limit.is_over:
            code = getattr(condition, "__code__", None)
            where = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(condition)
            raise Late(f"still {last!r}: the condition at {where}", limit)
        time.sleep(CHECK_SECONDS)


@contextmanager
def in_time(seconds: float, what: str) -> Iterator[Limit]:
    """Runs the block; `Late` if it took longer than *seconds* of an idle machine."""
    limit = Limit(seconds)
    yield limit
    if limit.is_over:
        raise Late(f"{what} took longer", limit)


@contextmanager
def measured(what: str, began: Limit) -> Iterator[None]:
    """Runs the block, which asserts seconds of the wall: `Late` if it fails.

    On a machine that hardly ran the test, they say something about the machine.

    Args:
        what: Was measured.
        began: A limit that was made where the measuring began.
    """
    try:
        yield
    except AssertionError as error:
        raise Late(f"{what}: {error}", began) from error


def missed_limit(error: BaseException | None, limit: Limit) -> Late | None:
    """The missed limit that *error* is, or was raised because of; None if it is a wrong result.

    Args:
        error: Of a test.
        limit: Of the whole test, for clients and programs with limits of their own.
    """
    if error is None or isinstance(error, Late):
        return error
    if _is_timeout(error):
        return Late(f"{type(error).__name__}: {error}", limit)
    return missed_limit(error.__cause__, limit)


def _is_timeout(error: BaseException) -> bool:
    if isinstance(error, KafkaException):
        codes = [reason.code() for reason in error.args if isinstance(reason, KafkaError)]
        return not TIMEOUTS.isdisjoint(codes)
    return isinstance(error, (TimeoutError, TimeoutExpired))
