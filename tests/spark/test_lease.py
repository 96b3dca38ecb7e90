"""The lease on one machine: a second process is refused, a dead one is replaced, rows are written.

Here the kernel's lock alone decides; tests/cluster/leases/test_ownership.py adds the group.
"""

import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import LeaseError
from replication.model import Flow
from replication.state.claim import Claim, LeaseName
from replication.state.lease import Lease, hold_lease
from replication.state.tables import Tables
from tests.support.frames import frame
from tests.support.local import Until
from tests.support.said import SaidLines
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

RECORDS = LeaseName(Flow("A", "B"))

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path.as_uri())


def hold(
    tables: Tables,
    name: LeaseName = RECORDS,
    stop: threading.Event | None = None,
    *,
    standby: bool = False,
) -> AbstractContextManager[Lease | None]:
    return hold_lease(tables, Claim(name, tables.root, None), stop, standby=standby)


def test_a_second_holder_is_refused_while_the_first_lives(tables: Tables) -> None:
    refused = pytest.raises(LeaseError, match=r"already running: .*, process \d+, since .*")
    with hold(tables), refused, hold(tables):
        pass


def test_the_lease_of_another_flow_is_free(tables: Tables) -> None:
    with hold(tables), hold(tables, LeaseName(Flow("B", "A"))) as lease:
        assert lease is not None
        assert lease.epoch == 1


def test_a_killed_holder_is_replaced_at_once(tables: Tables, tmp_path: Path) -> None:
    lock = tmp_path / "_locks" / "A-to-B.lock"
    lock.parent.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(LeaseError), hold(tables):
            pass
        holder.kill()

    with hold(tables) as lease:
        assert lease is not None
        assert lease.epoch == 1


def test_a_standby_holds_the_lease_when_the_first_process_releases_it(
    tables: Tables, until: Until, said: SaidLines
) -> None:
    held: list[Lease | None] = []

    def stand_by() -> None:
        with hold(tables, standby=True) as lease:
            held.append(lease)

    thread = threading.Thread(target=stand_by)
    with hold(tables):
        thread.start()
        until(lambda: said.of("lease_awaited"), 30)
        assert held == []
    wait_until(lambda: not thread.is_alive(), 60)

    assert [lease and lease.epoch for lease in held] == [2]


def test_a_standby_that_is_stopped_holds_nothing(tables: Tables) -> None:
    stop = threading.Event()
    stop.set()
    with hold(tables), hold(tables, stop=stop, standby=True) as lease:
        assert lease is None


def test_each_holder_and_its_release_are_recorded(tables: Tables) -> None:
    for _ in range(2):
        with hold(tables):
            pass

    rows = frame(tables, "leases").orderBy("epoch", "renewed").collect()
    assert [(row.epoch, row.released, row.executors) for row in rows] == [
        (1, False, "local"),
        (1, True, "local"),
        (2, False, "local"),
        (2, True, "local"),
    ]
    assert len({row.machine for row in rows}) == 1


def test_guarded_tables_write_nothing_without_the_lease(tables: Tables) -> None:
    def lost() -> None:
        raise LeaseError("lost")

    guarded = tables.guarded(lost)
    with pytest.raises(LeaseError, match="lost"):
        guarded.record_event(RECORDS.flow, "restarted", "text", reaction="retry")

    assert not tables.exists("events")
