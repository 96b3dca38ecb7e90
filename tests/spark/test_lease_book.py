"""The leases of one process: one commit takes them, one gives them back; each fails alone."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from replication.errors import LeaseError
from replication.model import Flow
from replication.state.claim import LEASE_PARTS, Claim, LeaseName
from replication.state.lease import Lease, LeaseBook, hold_lease
from replication.state.tables import Tables
from tests.support.frames import frame

pytestmark = pytest.mark.spark

FLOWS = Flow("A", "B"), Flow("B", "A"), Flow("A", "C"), Flow("C", "A")
NAMES = [LeaseName(flow, part) for flow in FLOWS for part in LEASE_PARTS]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    tables = Tables(spark, tmp_path.as_uri())
    tables.begin_folder()
    return tables


class Process:
    """The claims of one process and its book, as a drain has them before its flows start."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.claims = {name: Claim(name, tables.root, None) for name in NAMES}
        for claim in self.claims.values():
            claim.look()
        self.book = LeaseBook(tables, self.claims.values(), FLOWS)

    def hold(self, name: LeaseName) -> AbstractContextManager[Lease | None]:
        return hold_lease(self.tables, self.claims[name], book=self.book)


def commits(tables: Tables) -> int:
    """How many there were since the table was created."""
    return DeltaTable(tables.root.removeprefix("file://") + "/leases").version()


def rows(tables: Tables) -> list[tuple[str, int, bool]]:
    found = frame(tables, "leases").orderBy("epoch", "released", "flow").collect()
    return [(row.flow, row.epoch, row.released) for row in found]


def test_a_drain_of_four_flows_makes_two_commits(tables: Tables) -> None:
    for _ in range(2):
        drain = Process(tables)
        for name in NAMES:
            with drain.hold(name) as lease:
                assert lease is not None
        drain.book.give_back(FLOWS)

    taken_and_released = [
        (str(name), epoch, released)
        for epoch in (1, 2)
        for released in (False, True)
        for name in sorted(NAMES, key=str)
    ]
    assert rows(tables) == taken_and_released
    assert commits(tables) == 4


def test_a_lease_of_another_process_fails_alone(tables: Tables) -> None:
    taken, others = NAMES[3], [name for name in NAMES if name != NAMES[3]]
    with ExitStack() as stack:
        stack.enter_context(Claim(taken, tables.root, None)).look()
        drain = Process(tables)
        with pytest.raises(LeaseError, match="already running"), drain.hold(taken):
            pass
        for name in others:
            with drain.hold(name) as lease:
                assert lease is not None
        drain.book.give_back(FLOWS)

    assert {name for name, _, _ in rows(tables)} == set(map(str, others))
    assert commits(tables) == 2


def test_what_a_flow_never_used_is_given_back_with_the_rest(tables: Tables) -> None:
    drain = Process(tables)
    with drain.hold(NAMES[0]):
        pass
    drain.book.give_back(FLOWS)

    assert {name for name, _, released in rows(tables) if released} == set(map(str, NAMES))
    again = Process(tables)
    with again.hold(NAMES[5]) as lease:
        assert lease is not None
        assert lease.epoch == 2
    again.book.give_back(FLOWS)


def test_a_lease_with_records_on_their_way_is_not_released(tables: Tables) -> None:
    drain = Process(tables)
    with drain.hold(NAMES[0]) as lease:
        assert lease is not None
        lease.has_settled = False
    drain.book.give_back(FLOWS)

    released = {name for name, _, released in rows(tables) if released}
    assert released == set(map(str, NAMES[1:]))


def test_a_flow_that_goes_on_gives_a_lease_back_at_once(tables: Tables) -> None:
    claims = {name: Claim(name, tables.root, None) for name in NAMES[:3]}
    for claim in claims.values():
        claim.look()
    book = LeaseBook(tables, claims.values())

    with hold_lease(tables, claims[NAMES[1]], book=book):
        pass  # a query that failed, and is tried again

    assert rows(tables)[-1] == (str(NAMES[1]), 1, True)
    with hold_lease(tables, Claim(NAMES[1], tables.root, None), book=book) as lease:
        assert lease is not None
        assert lease.epoch == 2
    book.give_back(FLOWS)
