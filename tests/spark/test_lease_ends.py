"""Leases between owners: the last one may still write, or has lost its lease before its end."""

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from replication.model import Flow
from replication.state.claim import Claim, LeaseName, leave
from replication.state.lease import AFTER_ANY_END, LeaseBook, hold_lease
from replication.state.tables import Tables
from tests.support.frames import frame

pytestmark = pytest.mark.spark

FLOWS = Flow("A", "B"), Flow("A", "C")
FIRST, OTHER = (LeaseName(flow) for flow in FLOWS)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    tables = Tables(spark, tmp_path.as_uri())
    tables.begin_folder()
    return tables


@pytest.fixture
def process(tables: Tables) -> Iterator["Process"]:
    made = Process(tables)
    yield made
    leave(list(made.claims.values()))


class Process:
    """Two claims whose groups have named this process at once, and its book."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.groups: dict[LeaseName, Any] = {}
        self.claims = {name: self._claim(name) for name in (FIRST, OTHER)}
        self.book = LeaseBook(tables, self.claims.values(), FLOWS)

    def _claim(self, name: LeaseName) -> Claim:
        group = SimpleNamespace(
            state="owner", generation=1, join_seconds=0.0, seen="", reason="", owner="",
            __exit__=lambda *_: None,
        )  # fmt: skip
        self.groups[name] = group
        claim = Claim(name, self.tables.root, lambda _: group)  # type: ignore[arg-type, return-value]
        claim.look()
        return claim

    def lose(self, name: LeaseName) -> None:
        self.groups[name].state, self.groups[name].reason = "lost", "another one was named"


def rows(tables: Tables) -> list[tuple[str, int, bool]]:
    found = frame(tables, "leases").orderBy("flow", "epoch", "released").collect()
    return [(row.flow, row.epoch, row.released) for row in found]


def died(tables: Tables, name: LeaseName) -> None:
    """The row of an owner on another machine that has released nothing."""
    at = datetime.now(timezone.utc)
    row = {
        "flow": str(name), "epoch": 1, "owner": "of before", "host": "another", "since": at,
        "renewed": at, "released": False, "machine": "another", "executors": "local",
        "silence": 9.0,
    }  # fmt: skip
    tables.append("leases", [row])


def test_a_lease_whose_last_owner_may_still_write_is_not_taken_with_the_others(
    tables: Tables, process: "Process"
) -> None:
    died(tables, FIRST)

    other = process.book.take(process.claims[OTHER])  # would take both in one commit
    assert other is not None
    assert other.epoch == 1
    assert process.book.take(process.claims[FIRST]) is None
    assert rows(tables) == [("A->B", 1, False), ("A->C", 1, False)]

    process.claims[FIRST].named_at = time.monotonic() - AFTER_ANY_END - 1
    lease = process.book.take(process.claims[FIRST])
    assert lease is not None, "nothing of its last owner can write by now"
    assert lease.epoch == 2


def test_its_holder_waits_for_it_and_nobody_takes_it_meanwhile(
    tables: Tables, process: "Process"
) -> None:
    died(tables, FIRST)
    stop = Event()
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        assert process.book.take(process.claims[OTHER]) is not None
        assert rows(tables) == [("A->B", 1, False), ("A->C", 1, False)]
        return True  # the process is stopped meanwhile

    stop.wait = wait  # type: ignore[assignment, method-assign]
    with hold_lease(tables, process.claims[FIRST], stop, book=process.book) as lease:
        assert lease is None

    assert 0.9 * AFTER_ANY_END - 5 < waited[0] <= AFTER_ANY_END
    assert rows(tables) == [("A->B", 1, False), ("A->C", 1, False)]


def test_a_lease_that_is_lost_while_it_is_taken_has_no_row(
    tables: Tables, process: "Process"
) -> None:
    process.lose(FIRST)

    assert process.book.take(process.claims[OTHER]) is not None
    assert process.book.take(process.claims[FIRST]) is None
    assert rows(tables) == [("A->C", 1, False)]


@pytest.mark.parametrize("when", ["before its holder ends", "before the process ends"])
@pytest.mark.parametrize("drains", [True, False])
def test_a_lost_lease_is_not_released_and_the_other_one_is(
    tables: Tables, process: "Process", when: str, *, drains: bool
) -> None:
    process.book = LeaseBook(tables, process.claims.values(), FLOWS if drains else ())
    stop = Event()
    stop.set()  # so that the book keeps them until the process ends
    for name in (OTHER, FIRST):
        with hold_lease(tables, process.claims[name], stop, book=process.book) as lease:
            assert lease is not None
            if name == FIRST and when == "before its holder ends":
                process.lose(FIRST)
    process.lose(FIRST)
    process.book.give_back(FLOWS)

    assert rows(tables) == [("A->B", 1, False), ("A->C", 1, False), ("A->C", 1, True)]


def test_without_a_book_a_lost_lease_is_not_released_either(
    tables: Tables, process: "Process"
) -> None:
    for name in (FIRST, OTHER):
        with hold_lease(tables, process.claims[name]) as lease:
            assert lease is not None
            if name == FIRST:
                process.lose(FIRST)

    assert rows(tables) == [("A->B", 1, False), ("A->C", 1, False), ("A->C", 1, True)]
