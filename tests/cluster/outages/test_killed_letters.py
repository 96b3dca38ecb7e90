"""A process is killed by SIGKILL while it keeps a dead letter, and while it copies one again.

The test holds the lock of the table that is written next, so each kill comes at its very place.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.model import TopicPartition
from replication.offsets.dead_letter import IDENTITY, DeadLetter, DeadLetterId
from replication.offsets.map import Exact, OffsetMap
from replication.state.locks import hold_commit_lock
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.letters import LIMIT, contents, keys, letter_settings, numbered, too_large
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.stored import stored, stored_runs
from tests.support.topic_settings import alter_topic
from tests.support.topics import send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

DONE_SECONDS = 90.0


def kill_before(table: str, file: Path, is_done: Callable[[], bool]) -> None:
    """Starts a drain that cannot write *table*, and kills it once *is_done*."""
    with hold_commit_lock(file.with_name("state") / "_locks" / f"{table}.commit"):
        drain = start_mirror(file, file.with_suffix(".log"), "--mode", "drain")
        try:

            def look() -> bool:
                drain.check()
                return is_done()

            wait_until(look, DONE_SECONDS)
            kill_tree(drain.pid)
        finally:
            drain.discard()


def drain(file: Path) -> None:
    done = spark_submit(file, "--mode", "drain")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.guarantee
def test_a_letter_and_its_copy_are_written_once_wherever_the_process_is_killed(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    dead, remote, state = f"dead-{topic_name}", f"A.{topic_name}", tmp_path / "state"
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, remote, 1, {LIMIT: "100000"})
    send_records(source, topic_name, [*numbered(0, 1, 2), large := too_large()])
    own = {"groups": [topic_name], **letter_settings(topic_name, "topic")}
    file = write_config(tmp_path, clusters, topic_name, own)

    def rows() -> list[str]:
        return [row.state for row in stored(state, "dead_letters")]

    kill_before("dead_letters", file, lambda: log_ends(target.bootstrap, [dead]).get(dead) == 1)
    assert rows() == [], "the letter lies in its topic only"
    kill_before("events", file, lambda: rows() == ["waiting"])
    send_records(source, topic_name, numbered(4))
    drain(file)

    assert keys(target, remote) == [b"0", b"1", b"2", b"4"]
    (letter,) = contents(target, dead)
    assert (letter.key, letter.value) == (large.key, large.value)
    assert rows() == ["waiting"]

    alter_topic(target, remote, LIMIT, "1000000")
    assert "asked to copy 1 again" in replication("dead-letters", file, "--copy-again").stdout
    kill_before("dead_letters", file, lambda: keys(target, remote)[4:] == [b"large"])
    assert rows() == ["waiting"], "the copy lies in the remote topic only"
    kill_before("events", file, lambda: rows() == ["waiting", "copied"])
    send_records(source, topic_name, numbered(5))
    drain(file)

    assert keys(target, remote) == [b"0", b"1", b"2", b"4", b"large", b"5"]
    assert contents(target, remote)[4].value == large.value
    assert len(contents(target, dead)) == 1
    assert rows() == ["waiting", "copied"]
    kinds = {row.kind for row in stored(state, "events")}
    assert {"dead-letter", "dead-letter-copied"} <= kinds
    assert not kinds & {"realigned", "set-aside"}
    offset_map = OffsetMap(stored_runs(state, FLOW, TopicPartition(topic_name, 0)))
    assert [offset_map.translate(n) for n in (2, 4, 6)] == list(map(Exact, (2, 3, 6)))


def test_a_record_that_says_it_is_a_letter_is_copied_and_the_letter_as_well(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Its copy lies right behind the map's end when an owner starts, who is to copy the letter."""
    source, target = clusters
    remote, state = f"A.{topic_name}", tmp_path / "state"
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, remote, 1, {LIMIT: "100000"})
    send_records(source, topic_name, [*numbered(0), too_large()])
    own = {"groups": [topic_name], **letter_settings(topic_name, "table")}
    file = write_config(tmp_path, clusters, topic_name, own)
    drain(file)
    (row,) = stored(state, "dead_letters")
    letter = DeadLetterId(row.topic, row.topic_id, row.partition, row.source_offset)
    (forged,) = numbered(1)
    own_header = DeadLetter(FLOW, letter, "KAFKA_PRODUCE", "").headers_of_copy()
    broken = ((IDENTITY, b"[" * 10_000),)
    send_records(source, topic_name, [replace(forged, headers=own_header)])
    send_records(source, topic_name, [replace(one, headers=broken) for one in numbered(2)])
    kill_before("offset_runs", file, lambda: keys(target, remote) == [b"0", b"1", b"2"])

    alter_topic(target, remote, LIMIT, "1000000")
    assert "asked to copy 1 again" in replication("dead-letters", file, "--copy-again").stdout
    drain(file)

    assert keys(target, remote) == [b"0", b"1", b"2", b"large"]
    assert [row.state for row in stored(state, "dead_letters")] == ["waiting", "copied"]
    kinds = {row.kind for row in stored(state, "events")}
    assert not kinds & {"realigned", "set-aside"}
