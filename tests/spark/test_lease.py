"""One process per flow and state directory: a second one is rejected, a dead one is replaced."""

import subprocess
import sys
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import LeaseError
from replication.model import Flow
from replication.state.lease import EXPIRY_SECONDS, Lease, LeaseName, hold_lease
from replication.state.tables import Tables

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


def test_a_second_holder_is_refused_while_the_first_lives(tables: Tables) -> None:
    refused = pytest.raises(LeaseError, match=r"already running.*process \d+")
    with hold_lease(tables, RECORDS), refused, hold_lease(tables, RECORDS):
        pass


def test_the_lease_of_another_flow_is_free(tables: Tables) -> None:
    with hold_lease(tables, RECORDS), hold_lease(tables, LeaseName(Flow("B", "A"))) as lease:
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
        with pytest.raises(LeaseError), hold_lease(tables, RECORDS):
            pass
        holder.kill()

    with hold_lease(tables, RECORDS) as lease:
        assert lease.epoch == 1


class TestWithoutFileLocks:
    """On a file system without file locks the table alone decides."""

    def test_a_living_owner_is_respected(self, tables: Tables) -> None:
        refused = pytest.raises(LeaseError)
        with without_file_locks(tables), refused, without_file_locks(tables):
            pass

    def test_a_released_lease_is_free_at_once(self, tables: Tables) -> None:
        with without_file_locks(tables):
            pass

        with without_file_locks(tables) as lease:
            assert lease.epoch == 2

    def test_an_owner_that_did_not_renew_for_too_long_is_dead(self, tables: Tables) -> None:
        last = datetime.now(timezone.utc) - timedelta(seconds=EXPIRY_SECONDS + 1)
        row = {"flow": str(RECORDS), "epoch": 4, "owner": "x", "host": "h", "since": last}
        tables.append("leases", [{**row, "renewed": last, "released": False}])

        with without_file_locks(tables) as lease:
            assert lease.epoch == 5

    def test_one_of_two_claims_to_the_same_epoch_wins(self, tables: Tables) -> None:
        first, second = (Lease(tables, RECORDS, 1, by_kernel=False) for _ in range(2))

        assert first.claim()
        assert not second.claim()

    def test_an_owner_whose_lease_was_taken_over_stops_at_its_next_renewal(
        self, tables: Tables
    ) -> None:
        owner = Lease(tables, RECORDS, 1, by_kernel=False, renew_seconds=0)
        assert owner.claim()
        owner.renew()

        assert Lease(tables, RECORDS, 2, by_kernel=False).claim()

        with pytest.raises(LeaseError, match="flow A->B: another process took over the lease"):
            owner.renew()


def without_file_locks(tables: Tables) -> AbstractContextManager[Lease]:
    return hold_lease(tables, RECORDS, file_locks=False)
