"""A small driver and a source of several brokers: what is fetched of compressed topics fits in."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from replication.demo.brokers import BrokerSettings
from replication.demo.workload import ProducedRecord
from tests.support.broker_racks import broker_racks
from tests.support.local import SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_equal, copied, delete_topic, send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.soak, pytest.mark.timeout(1200)]

HEAP = "1g"
PARTITIONS = 240
EACH = 125
RECORD_BYTES = 50_000  # 1.5 GB in all, and a task's first fetches have all that is its
TIMES_SMALLER = 200  # as the source's log has it
SECONDS = 240.0


def repetitive() -> Iterator[ProducedRecord]:
    """Records of which compression leaves little."""
    for number in range(EACH * PARTITIONS):
        value = os.urandom(RECORD_BYTES // TIMES_SMALLER) * TIMES_SMALLER
        yield ProducedRecord(partition=number % PARTITIONS, key=None, value=value)


@pytest.mark.parametrize("brokers", [3, 12])
def test_a_backlog_of_many_brokers_fits_into_a_small_heap(
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    brokers: int,
) -> None:
    """Eight tasks fetch of all of them at once."""
    small = replace(broker_settings, heap_mb=256)
    with broker_racks(tmp_path / "source", small, brokers) as source:
        replicas = [[number % brokers + 1] for number in range(PARTITIONS)]
        source.create_topic(topic_name, replicas, {"compression.type": "zstd"})
        send_records(source, topic_name, repetitive())
        both = (source, clusters[1])
        shared = {"replication.source": "shared", "tasks.max": 8}
        config = write_config(tmp_path, both, topic_name, shared)
        command = [str(SCRIPT), "--config", str(config), "--", "--driver-memory", HEAP]
        log = tmp_path / "mirror.log"

        with RunningProcess("mirror", command, log) as job:
            wait_until(
                job.while_running(lambda: copied(both, topic_name) == EACH * PARTITIONS), SECONDS
            )
            assert job.end() == 0

        said = log.read_text()
        assert "OutOfMemoryError" not in said
        assert [line for line in said.splitlines() if "generation_started" in line][1:] == []
        assert_equal(both, topic_name)
    delete_topic(clusters[1], f"A.{topic_name}")
