"""More partitions than Spark keeps consumers by default: no batch and no job takes long to end."""

from pathlib import Path

import pytest

from replication.demo.latency import LatencyProbe
from replication.demo.paced import PacedProducer
from replication.demo.workload import plain_records
from tests.support.gate.clock import Limit
from tests.support.local import SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.topics import copied, delete_topic, fill, now_ms
from tests.support.waiting import measured, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

PARTITIONS = 80  # Spark keeps 64 consumers by default
BUSY = 10  # of them get records; the fetches of the others wait, until a record or the time ends it
BATCH_SECONDS = 6
RATE = 10.0
RECORDS = 150  # of 15 seconds, in which at least two batches end
FETCH_SECONDS = 120  # a close that waits logs an error after 30 seconds
WAIT_SECONDS = 90.0


def test_no_record_waits_for_consumers_that_are_closed(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, PARTITIONS, PARTITIONS)
    settings = {
        "replication.mode": "realtime",
        "replication.source": "spark",
        "replication.realtime.batch.seconds": BATCH_SECONDS,
        "consumer.fetch.max.wait.ms": 1000 * FETCH_SECONDS,
        "consumer.request.timeout.ms": 2 * 1000 * FETCH_SECONDS,
        "consumer.default.api.timeout.ms": 2 * 1000 * FETCH_SECONDS,
    }
    config = write_config(tmp_path, clusters, topic_name, settings)
    records = plain_records(BUSY, size_bytes=100, now_ms=now_ms())
    paced = PacedProducer(source.bootstrap, {topic_name: records}, records_per_second=RATE)

    with RunningProcess("mirror", [str(SCRIPT), "--config", str(config)], tmp_path / "log") as job:
        wait_until(
            job.while_running(lambda: copied(clusters, topic_name) == PARTITIONS), WAIT_SECONDS
        )
        probe = LatencyProbe(target.bootstrap, (f"A.{topic_name}",))
        probe.start()
        began = Limit(WAIT_SECONDS)
        paced.start()
        everything = PARTITIONS + RECORDS
        wait_until(
            job.while_running(lambda: copied(clusters, topic_name) >= everything), WAIT_SECONDS
        )
        paced.finish()
        assert job.end() == 0
    (latencies,) = probe.finish().values()
    delete_topic(source, topic_name)
    delete_topic(target, f"A.{topic_name}")

    assert len(latencies) >= RECORDS
    # A busy machine takes seconds; a record that waits for such a fetch takes its rest.
    with measured("the longest time of a record on its way", began):
        assert latencies[-1] < 1000 * (FETCH_SECONDS - BATCH_SECONDS) / 2
    assert "Failed to close" not in (tmp_path / "log").read_text()
