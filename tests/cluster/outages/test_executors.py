"""Executors and workers that die in mid-batch on a real Spark cluster: nothing lost or repeated.

The job runs as a user runs it, through spark-submit.sh with a standalone master. Spark itself would
run the tasks of a lost executor again within the batch and so write their records twice.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from replication.demo.brokers import Broker
from replication.demo.compare import compare
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, sending
from replication.model import Mode
from tests.support.gate.clock import Limit
from tests.support.local import REPOSITORY, SCRIPT, Clusters, Until
from tests.support.mirror_files import FLOW, write_config
from tests.support.offset_maps import wrong_entries
from tests.support.running_process import RunningProcess
from tests.support.standalone import SECRET, Standalone, WorkerSize, standalone
from tests.support.stored import reader, stored
from tests.support.topics import assert_equal, copied, fill, send
from tests.support.waiting import Late

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

PARTITIONS = 2
BACKLOG_RECORDS = 500_000
# A case takes a minute: each run takes one of the others, and --soak all nine.
IN_EVERY_RUN = {("realtime", "executor")}
START_SECONDS = 90.0
COPY_SECONDS = 240.0
END_SECONDS = 90.0
# A worker that is left alone must have the slots of a Real-Time flow: a partition each, and two.
SETTINGS = {"replication.realtime.batch.seconds": 30}
SIZE = WorkerSize(cores=PARTITIONS + 2)


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers; a test that kills workers starts as many again."""
    with standalone(tmp_path_factory.mktemp("spark"), workers=2, size=SIZE) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("mode", "victim"),
    [
        pytest.param(
            mode,
            victim,
            marks=pytest.mark.guarantee if (mode, victim) in IN_EVERY_RUN else pytest.mark.soak,
        )
        for mode in ("realtime", "microbatch", "drain")
        for victim in ("executor", "worker", "both")
    ],
)
def test_a_lost_executor_loses_and_repeats_nothing(
    clusters: Clusters,
    spark_cluster: Standalone,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    victim: str,
) -> None:
    source, target = clusters
    remote = f"A.{topic_name}"
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    with sending(source.bootstrap) as sender:
        now_ms = time.time_ns() // 1_000_000
        records = plain_records(PARTITIONS, size_bytes=200, now_ms=now_ms)
        sender.send_all(topic_name, islice(records, BACKLOG_RECORDS))
    config = write_config(tmp_path, clusters, topic_name, SETTINGS | {"groups": [topic_name]})
    arguments = ["--config", str(config), "--mode", mode, "--", *spark_cluster.job_arguments()]

    with RunningProcess("mirror", [str(SCRIPT), *arguments], tmp_path / "mirror.log") as job:
        await_records(target, remote, 1, job, START_SECONDS)
        lose(spark_cluster, victim)
        at_kill = log_ends(target.bootstrap, [remote])[remote]
        await_records(target, remote, BACKLOG_RECORDS, job, COPY_SECONDS)
        code = job.end() if mode != "drain" else job.wait(END_SECONDS)
    again = subprocess.run(
        [SCRIPT, *arguments[:2], "--mode", "drain"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert at_kill < BACKLOG_RECORDS, "the copy was over before anything was killed"
    report = compare(source.bootstrap, target.bootstrap, {topic_name: remote}, keep_offsets=True)
    assert report[topic_name].is_equal, str(report[topic_name])
    assert code == 0
    assert again.returncode == 0, again.stdout[-3000:]
    assert report[topic_name].is_dense, "then the map must give each record's own offset"
    state = tmp_path / "state"
    offsets = reader(state).offsets(FLOW)
    assert wrong_entries(report[topic_name], lambda tp: offsets.maps({tp: 0})[tp].offsets) == []
    events = stored(state, "events")
    assert {event["kind"] for event in events} == {"restarted"}
    assert any("executor" in event["text"] for event in events), events
    _, _, log = (tmp_path / "mirror.log").read_text().partition("event=generation_started")
    assert "\tat " not in log, "a lost executor is no stack trace"


@pytest.mark.soak
def test_auto_changes_its_mode_when_a_worker_goes_and_when_one_comes(
    clusters: Clusters, spark_cluster: Standalone, tmp_path: Path, topic_name: str, until: Until
) -> None:
    partitions = SIZE.cores + 1  # the slots of both workers suffice, those of one do not
    fill(clusters[0], topic_name, partitions, 10 * partitions)
    settings = SETTINGS | {"groups": [topic_name], "replication.source": "spark"}
    config = write_config(tmp_path, clusters, topic_name, settings)
    arguments = ["--config", str(config), "--", *spark_cluster.job_arguments()]
    log = tmp_path / "mirror.log"

    def modes() -> list[str]:
        return re.findall(r"event=generation_started generation=\d+ mode=(\w+)", log.read_text())

    with RunningProcess("mirror", [str(SCRIPT), *arguments], log) as job:
        until(lambda: modes() == ["realtime"], START_SECONDS)
        worker = next(worker for worker in spark_cluster.workers if worker.executors())
        spark_cluster.workers.remove(worker)
        worker.kill_all()
        until(lambda: modes()[-1] == "microbatch", START_SECONDS)
        spark_cluster.add_worker()
        until(lambda: modes()[-1] == "realtime", START_SECONDS)
        send(clusters[0], topic_name, partitions, 10 * partitions)
        until(lambda: copied(clusters, topic_name) == 20 * partitions, START_SECONDS)
        code = job.end()

    assert code == 0
    assert "event=mode_no_longer_fits mode=microbatch" in log.read_text()
    assert_equal(clusters, topic_name)


@pytest.mark.soak
def test_a_second_attempt_never_ends_well_even_if_it_writes_nothing(
    spark_cluster: Standalone,
) -> None:
    module = [sys.executable, "-m", "tests.support.second_attempt"]
    settings = [f"{key}={value}" for key, value in SECRET.items()]
    answer = subprocess.run(
        [*module, spark_cluster.url, *settings],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )

    spark_cluster.add_worker()  # in place of the one that died

    assert answer.stdout.startswith("failed"), answer.stdout + answer.stderr[-2000:]
    assert "a second attempt of a task cannot finish its batch" in answer.stdout


def lose(cluster: Standalone, victim: str) -> None:
    """Kills what one worker runs; the cluster has two workers again afterwards."""
    worker = next(worker for worker in cluster.workers if worker.executors())
    if victim == "executor":
        worker.kill_executors()
        return
    (worker.kill if victim == "worker" else worker.kill_all)()
    cluster.workers.remove(worker)
    cluster.add_worker()


def await_records(
    target: Broker, remote: str, records: int, job: RunningProcess, seconds: float
) -> None:
    """Until the remote topic holds *records*. Reads log ends only: a repeated record counts too."""
    limit = Limit(seconds)
    while log_ends(target.bootstrap, [remote]).get(remote, 0) < records:
        if limit.is_over:
            raise Late(f"fewer than {records} records were copied", limit)
        job.check()
        time.sleep(0.02)  # between two looks at the target
