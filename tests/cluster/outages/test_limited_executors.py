"""Executors share a limit, and together never have more than it, whichever of them dies."""

import time
from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.demo.workload import ProducedRecord, create_topic
from replication.model import Mode
from tests.support.gate.clock import Limit
from tests.support.local import SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.rates import TIMES, between, mean, sent_to, worst_second
from tests.support.running_process import RunningProcess
from tests.support.standalone import Standalone, WorkerSize, standalone
from tests.support.stored import stored
from tests.support.topics import now_ms, send_records
from tests.support.waiting import Late, measured

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

PARTITIONS = 2
SIZE = 1_000
RATE = 300_000
RECORDS = 10_000
START_SECONDS = 90.0
COPY_SECONDS = 240.0
A_FIFTH_MORE = 1.2


@pytest.mark.parametrize("mode", ["realtime", pytest.param("microbatch", marks=pytest.mark.soak)])
def test_two_executors_have_the_limit_together_and_so_has_the_one_that_is_left(
    clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    records = (
        ProducedRecord(partition=number % PARTITIONS, key=None, value=b"x" * SIZE)
        for number in range(RECORDS)
    )
    send_records(clusters[0], topic_name, records)
    settings = {
        **TIMES,
        "replication.limit.bytes.per.second": RATE,
        "replication.realtime.batch.seconds": 30,
        "groups": topic_name,
    }
    config = write_config(tmp_path, clusters, topic_name, settings)
    size = WorkerSize(cores=PARTITIONS + 2)
    with standalone(tmp_path / "spark", workers=2, size=size) as cluster:
        arguments = ["--config", str(config), "--mode", mode, "--", *cluster.job_arguments()]
        log = tmp_path / "mirror.log"
        with RunningProcess("mirror", [str(SCRIPT), *arguments], log) as job:
            await_records(clusters, topic_name, 1, job, START_SECONDS)
            began, start = Limit(1), now_ms()
            await_records(clusters, topic_name, RECORDS // 3, job, COPY_SECONDS)
            killed_at = now_ms()
            kill_a_writer(cluster)
            await_records(clusters, topic_name, RECORDS, job, COPY_SECONDS)
            code = job.end()

    sent = sent_to(clusters[1], f"A.{topic_name}")
    assert code == 0
    assert len(sent) == RECORDS, "nothing is lost or repeated"
    kinds = {event["kind"] for event in stored(tmp_path / "state", "events")}
    assert kinds - {"restarted"} == {"limited"}
    with measured("the rates of both", began):
        assert worst_second(sent) <= RATE * A_FIFTH_MORE
        until = killed_at - 500
        by_both = between(sent, start + 1_000, until)
        # a busy machine sends less than it may
        assert RATE * 0.8 <= mean(by_both, start + 1_000, until) <= RATE * 1.05


def kill_a_writer(cluster: Standalone) -> None:
    """Kills the executor of one worker, which starts another."""
    worker = next(worker for worker in cluster.workers if worker.executors())
    worker.kill_executors()


def await_records(
    clusters: Clusters, topic: str, records: int, job: RunningProcess, seconds: float
) -> None:
    """Until the remote topic holds *records*."""
    limit, remote = Limit(seconds), f"A.{topic}"
    while log_ends(clusters[1].bootstrap, [remote]).get(remote, 0) < records:
        if limit.is_over:
            raise Late(f"fewer than {records} records were copied", limit)
        job.check()
        time.sleep(0.05)  # between two looks at the target
