"""The names that a lease has: its group, its static member, its lock file."""

import re
import tempfile
from pathlib import Path

import pytest

from replication.model import Flow
from replication.state.claim import Claim, LeaseName, instance_id, lock_path

RECORDS = LeaseName(Flow("us-west", "us-east"))
CHECKPOINTS = LeaseName(Flow("us-west", "us-east"), "checkpoints")


def test_each_part_of_a_flow_has_a_group() -> None:
    assert RECORDS.group == "__replication-lease.us-west-to-us-east.records"
    assert CHECKPOINTS.group == "__replication-lease.us-west-to-us-east.checkpoints"


@pytest.mark.parametrize("host", ["node-1.example.org", "höst", "a b/c"])
def test_a_static_member_id_has_the_characters_that_kafka_allows(host: str) -> None:
    found = instance_id(host, "hdfs://x/state")

    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", found)
    assert found == instance_id(host, "hdfs://x/state/"), "a restart has the same one"
    assert found != instance_id(host, "hdfs://x/other")


def test_the_lock_is_under_a_local_state_directory_and_else_on_the_machine(tmp_path: Path) -> None:
    local = lock_path(tmp_path.as_uri(), CHECKPOINTS)
    remote = lock_path("hdfs://x/state", CHECKPOINTS)

    assert local == tmp_path / "_locks" / "us-west-to-us-east checkpoints.lock"
    assert remote.parent.parent == Path(tempfile.gettempdir())
    assert remote != lock_path("hdfs://x/other", CHECKPOINTS)


def test_a_claim_waits_while_another_one_holds_the_lock(tmp_path: Path) -> None:
    with Claim(RECORDS, tmp_path.as_uri(), None) as first:
        assert first.look() == "owner"
        with Claim(RECORDS, tmp_path.as_uri(), None) as second:
            assert second.look() == "waiting"
            assert first.process in second.owner
            first.__exit__()

            assert second.look() == "owner"
            assert second.machine != ""
