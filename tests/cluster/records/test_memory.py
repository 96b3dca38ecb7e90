"""A small driver, many partitions, Spark's source: out of memory it ends, and loses nothing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from replication.demo.workload import plain_records
from tests.support.local import SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_equal, copied, delete_topic, fill, now_ms
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

HEAP = "600m"
PARTITIONS = 200
EACH = 30
RECORD_BYTES = 50_000  # 300 MB in all, and a fetch of a megabyte from each partition does not fit
KILLED = 137  # by signal 9
WAIT_SECONDS = 90.0


@pytest.fixture
def backlog(clusters: Clusters, topic_name: str) -> Iterator[str]:
    """The source topic."""
    stream = partial(plain_records, size_bytes=RECORD_BYTES, now_ms=now_ms())
    fill(clusters[0], topic_name, PARTITIONS, EACH * PARTITIONS, stream)
    yield topic_name
    delete_topic(clusters[0], topic_name)
    delete_topic(clusters[1], f"A.{topic_name}")


def test_what_does_not_fit_in_realtime_mode_ends_it_and_is_copied_in_batches(
    clusters: Clusters, tmp_path: Path, backlog: str
) -> None:
    source = {"replication.source": "spark"}
    greedy = {"replication.mode": "realtime", "consumer.max.partition.fetch.bytes": 100_000_000}
    config = write_config(tmp_path, clusters, backlog, source | greedy)
    command = [str(SCRIPT), "--config", str(config), "--", "--driver-memory", HEAP]

    with RunningProcess("mirror", command, tmp_path / "greedy.log") as job:
        code = job.wait(WAIT_SECONDS)
    write_config(tmp_path, clusters, backlog, source)
    with RunningProcess("mirror", command, tmp_path / "mirror.log") as job:
        everything = EACH * PARTITIONS
        wait_until(job.while_running(lambda: copied(clusters, backlog) == everything), WAIT_SECONDS)
        assert job.end() == 0

    assert code == KILLED
    assert "java.lang.OutOfMemoryError" in (tmp_path / "greedy.log").read_text()
    log = (tmp_path / "mirror.log").read_text()
    assert f"warning: auto takes micro-batches: on one machine {PARTITIONS} partitions" in log
    assert "mode_chosen mode=microbatch" in log
    assert_equal(clusters, backlog)
