"""The names that a lease has: its group, its static member, its lock file."""

import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replication.errors import ClusterError, StateError
from replication.kafka.ownership import Member
from replication.model import Flow, Job
from replication.state.claim import LEASE_PARTS, Claim, LeaseName, instance_id, lease_lock_path
from replication.state.folder import job_name
from replication.state.locks import find_owner, take_lock

RECORDS = LeaseName(Flow("us-west", "us-east"))
CHECKPOINTS = LeaseName(Flow("us-west", "us-east"), "checkpoints")


def test_each_part_of_a_flow_has_a_group() -> None:
    assert RECORDS.group == "__replication-lease.us-west-to-us-east.records"
    assert CHECKPOINTS.group == "__replication-lease.us-west-to-us-east.checkpoints"


aliases = st.lists(
    st.sampled_from(["a", "-", "to", "-to-", "checkpoints", "-metadata", ".", "B"]), min_size=1
).map("".join)
flows = st.builds(Flow, aliases, aliases)
jobs: st.SearchStrategy[Job] = st.sampled_from(["mirror", "checkpoints", "metadata", "heartbeats"])


@given(st.tuples(flows, jobs), st.tuples(flows, jobs))
@example((Flow("a", "b-to-c"), "mirror"), (Flow("a-to-b", "c"), "mirror"))
@example((Flow("a", "to-b"), "mirror"), (Flow("a-to", "b"), "mirror"))
@example((Flow("a", "b-checkpoints"), "mirror"), (Flow("a", "b"), "checkpoints"))
def test_no_flow_has_a_name_of_another(one: tuple[Flow, Job], other: tuple[Flow, Job]) -> None:
    """For files, requests, locks, groups, queries and clients."""
    is_same_job = (one[0], one[1]) == (other[0], other[1])
    assert (job_name(*one) == job_name(*other)) == is_same_job
    assert (one[0].slug == other[0].slug) == (one[0] == other[0])
    groups = {LeaseName(flow, part).group for flow in (one[0], other[0]) for part in LEASE_PARTS}
    assert len(groups) == len(LEASE_PARTS) * len({one[0], other[0]})


def test_a_name_that_nothing_else_could_mean_is_plain() -> None:
    assert Flow("us-west", "us-east").slug == "us-west-to-us-east"
    assert Flow("a", "b-to-c").slug == "a-to-b-to-c+" + sha256(b"a->b-to-c").hexdigest()[:8]


@pytest.mark.parametrize("host", ["node-1.example.org", "höst", "a b/c"])
def test_a_static_member_id_has_the_characters_that_kafka_allows(host: str) -> None:
    found = instance_id(host, "hdfs://x/state", "m")

    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", found)
    assert found == instance_id(host, "hdfs://x/state/", "m"), "a restart has the same one"
    assert found != instance_id(host, "hdfs://x/other", "m")


def test_the_lock_is_under_a_local_state_directory_and_else_on_the_machine(tmp_path: Path) -> None:
    local = lease_lock_path(tmp_path.as_uri(), CHECKPOINTS)
    remote = lease_lock_path("hdfs://x/state", CHECKPOINTS)

    assert local == tmp_path / "_locks" / "us-west-to-us-east checkpoints.lock"
    assert remote.parent.parent == Path(tempfile.gettempdir())
    assert remote != lease_lock_path("hdfs://x/other", CHECKPOINTS)


def test_a_service_keeps_its_locks_where_systemd_keeps_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/replication")

    found = lease_lock_path("hdfs://x/state", RECORDS)

    assert found.parent == Path(f"/var/lib/replication/replication-locks-{os.getuid()}")


def test_a_claim_waits_while_another_one_holds_the_lock(tmp_path: Path) -> None:
    with Claim(RECORDS, tmp_path.as_uri(), None) as first:
        assert first.look() == "owner"
        with Claim(RECORDS, tmp_path.as_uri(), None) as second:
            assert second.look() == "waiting"
            assert first.process in second.owner
            first.__exit__()

            assert second.look() == "owner"
            assert second.machine != ""


def test_processes_with_one_lock_file_are_one_member_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def join(member: Member) -> NoReturn:
        found.append(member.instance)
        raise ClusterError("seen")

    for folder in ("one", "one", "two"):  # a restart, and a service with temporary files of its own
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
        claim = Claim(RECORDS, "hdfs://x/state", join, host="node")
        with claim, pytest.raises(ClusterError, match="seen"):
            claim.look()

    first, again, other = found
    assert first == again
    assert first != other


def test_what_another_user_has_prepared_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "replication-locks"
    victim = tmp_path / "important.conf"
    victim.write_text("precious")
    lock = folder / "a.lock"
    folder.mkdir(mode=0o700)

    lock.symlink_to(victim)
    with pytest.raises(StateError, match=r"cannot write the lock file .*a\.lock: "):
        take_lock(lock)
    with pytest.raises(StateError, match=r"cannot read the lock file .*a\.lock: "):
        find_owner(lock)
    lock.unlink()
    lock.hardlink_to(victim)
    with pytest.raises(StateError, match=r"a\.lock is no file, or another file as well: remove it"):
        take_lock(lock)
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(StateError, match="is no file"):
        take_lock(lock)
    lock.unlink()
    folder.chmod(0o777)
    with pytest.raises(StateError, match=r"may be written by others \(mode 777\): remove it"):
        take_lock(lock)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(StateError, match=r"replication-locks is a link"):
        take_lock(lock)

    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
@pytest.mark.parametrize(
    ("mode", "above", "is_taken"),
    [
        pytest.param(0o1777, 0, False, id="among temporary files"),
        pytest.param(0o755, 0, False, id="of a stranger"),
        pytest.param(0o755, 4711, True, id="of whoever owns the state directory"),
    ],
)
def test_whose_a_folder_of_locks_may_be(
    tmp_path: Path, mode: int, above: int, *, is_taken: bool
) -> None:
    folder = tmp_path / "above" / "locks"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(mode)
    os.chown(folder.parent, above, above)
    os.chown(folder, 4711, 4711)

    if is_taken:
        lock = take_lock(folder / "a.lock")
        assert lock is not None
        lock.release()
    else:
        with pytest.raises(StateError, match=r"belongs to another user \(4711\)"):
            take_lock(folder / "a.lock")


def test_a_lock_whose_file_was_tidied_away_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    with take_lock(path) or pytest.fail("nobody holds it") as first:
        path.unlink()
        with take_lock(path) or pytest.fail("another file") as second:
            assert first.identity != second.identity
            assert take_lock(path) is None
