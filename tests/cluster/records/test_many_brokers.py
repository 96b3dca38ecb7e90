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
from tests.support.topics import assert_equal, copied, send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.soak, pytest.mark.timeout(1200)]

PARTITIONS = 240
EACH = 20
RECORD_BYTES = 50_000
TIMES_SMALLER = 20  # as the source's log has it: a megabyte of a fetch is 20 of records
SECONDS = 240.0


def repetitive() -> Iterator[ProducedRecord]:
    """Records of 240 MB, of each of which compression leaves a part."""
    for number in range(EACH * PARTITIONS):
        value = os.urandom(RECORD_BYTES // TIMES_SMALLER) * TIMES_SMALLER
        yield ProducedRecord(partition=number % PARTITIONS, key=None, value=value)


@pytest.mark.parametrize(("brokers", "heap"), [(3, "600m"), (12, "1g")])
def test_a_backlog_of_many_brokers_fits_into_a_small_heap(
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    brokers: int,
    heap: str,
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
        command = [str(SCRIPT), "--config", str(config), "--", "--driver-memory", heap]
        log = tmp_path / "mirror.log"

        with RunningProcess("mirror", command, log) as job:
            wait_until(
                job.while_running(lambda: copied(both, topic_name) == EACH * PARTITIONS), SECONDS
            )
            assert job.end() == 0

        assert "generation_started" in log.read_text()
        assert "restarting" not in log.read_text()
        assert_equal(both, topic_name)
