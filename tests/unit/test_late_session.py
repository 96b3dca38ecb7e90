"""Spark starts once, when somebody needs it, and never if nobody does."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from replication.errors import SetupError
from replication.spark.session import LateSession


class Starts:
    """A session that counts its starts, of which the first *failures* fail."""

    def __init__(self, failures: int = 0) -> None:
        self.count = 0
        self._failures = failures

    def __call__(self) -> Any:  # noqa: ANN401 - stands for a session
        self.count += 1
        if self.count <= self._failures:
            raise SetupError("no Java")
        return ("session", self.count)


def own_session(spark: Any) -> Any:  # noqa: ANN401 - stands for a session
    """A session made from *spark*."""
    return ("own", spark)


def test_who_only_asks_starts_nothing() -> None:
    starts = Starts()
    session = LateSession(starts)
    own = session.derived(own_session)

    assert (session.started, own.started, starts.count) == (None, None, 0)


def test_many_threads_start_it_once() -> None:
    starts = Starts()
    session = LateSession(starts)
    flows = [session.derived(own_session) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(LateSession.get, flows))

    expected: Any = ("own", ("session", 1))
    assert (found, starts.count) == ({expected}, 1)


def test_a_session_made_from_one_that_has_started_counts_as_started() -> None:
    session = LateSession(Starts())
    own = session.derived(own_session)

    session.get()

    expected: Any = ("own", ("session", 1))
    assert own.started == expected


def test_a_start_that_failed_is_tried_again() -> None:
    session = LateSession(Starts(failures=1))

    with pytest.raises(SetupError, match="no Java"):
        session.get()
    assert session.started is None
    expected: Any = ("session", 2)
    assert session.get() == expected


def test_a_session_that_is_there_has_started() -> None:
    spark: Any = ("session", 0)
    assert LateSession.of(spark).started == spark
    late = LateSession(Starts())
    assert LateSession.of(late) is late


def test_whoever_needs_a_session_waits_for_the_start_that_has_begun() -> None:
    may_end, starts = Event(), Starts()

    def start() -> Any:  # noqa: ANN401 - stands for a session
        may_end.wait()
        return starts()

    session = LateSession(start)
    session.begin()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(session.derived(own_session).get)
        is_waited_for = not found.done() and session.started is None
        may_end.set()

    expected: Any = ("own", ("session", 1))
    assert (is_waited_for, found.result(), starts.count) == (True, expected, 1)


def test_a_start_beside_that_fails_is_tried_again_by_whoever_needs_it() -> None:
    starts = Starts(failures=1)
    session = LateSession(starts)

    session.begin()
    session.await_begun()

    assert (session.started, starts.count) == (None, 1)
    expected: Any = ("session", 2)
    assert session.get() == expected


def test_the_end_waits_for_nothing_that_has_not_begun() -> None:
    starts = Starts()

    LateSession(starts).await_begun()

    assert starts.count == 0
