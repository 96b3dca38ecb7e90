"""A lease by a real group: when its new owner waits, and what its table says of the last one."""

import threading
import uuid
from contextlib import AbstractContextManager
from datetime import datetime, timezone

import pytest
from pyspark.sql import SparkSession

from replication.kafka.ownership import Member, Ownership
from replication.model import Flow
from replication.state.claim import Claim, LeaseName, instance_id, join_from
from replication.state.lease import Lease, hold_lease
from replication.state.tables import Tables
from tests.support.frames import frame
from tests.support.local import Clusters, Until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

HOST = "this-host"


@pytest.fixture
def name() -> LeaseName:
    """A lease that no other test has."""
    return LeaseName(Flow("A", f"B{uuid.uuid4().hex[:8]}"))


@pytest.fixture
def properties(clusters: Clusters) -> dict[str, str]:
    return {"bootstrap.servers": clusters[1].bootstrap}


def hold(
    tables: Tables,
    properties: dict[str, str],
    name: LeaseName,
    stop: threading.Event | None = None,
) -> AbstractContextManager[Lease | None]:
    join = join_from(tables.spark._jvm, properties, name)  # noqa: SLF001 - as the application does
    return hold_lease(tables, Claim(name, tables.root, join, host=HOST), stop)


def test_a_new_owner_waits_for_one_of_another_machine_that_did_not_release(
    tables: Tables,
    properties: dict[str, str],
    name: LeaseName,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    with hold(tables, properties, name):
        (row,) = frame(tables, "leases").collect()
    now = datetime.now(timezone.utc)
    died = {**row.asDict(), "epoch": 2, "since": now, "renewed": now, "machine": "another 8:15"}
    tables.append("leases", [died])
    stop = threading.Event()
    held: list[Lease | None] = []

    def take() -> None:
        with hold(tables, properties, name, stop) as lease:
            held.append(lease)

    thread = threading.Thread(target=take)
    thread.start()
    until(lambda: "event=lease_handover" in caplog.text or held, 30)
    assert held == []
    stop.set()
    thread.join(60)

    assert held == [None]


@pytest.mark.guarantee
def test_a_lease_that_was_lost_is_not_recorded_as_released(
    spark: SparkSession,
    tables: Tables,
    properties: dict[str, str],
    name: LeaseName,
    until: Until,
) -> None:
    with hold(tables, properties, name) as lease:
        assert lease is not None
        (row,) = frame(tables, "leases").collect()
        member = Member(instance_id(HOST, tables.root, row.machine), "of the same name", "")
        with Ownership(spark._jvm, properties, name.group, member):  # noqa: SLF001 - a second one
            until(lambda: not lease.is_held, 30)

    assert [row.released for row in frame(tables, "leases").collect()] == [False]
