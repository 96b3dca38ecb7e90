"""What operators pause stands still on all executors, and on one that takes the place of another.

The job runs as a user runs it, through spark-submit.sh with a standalone master and two workers.
"""

from pathlib import Path

import pytest

from replication.model import Source
from tests.support.cli import ok, run
from tests.support.local import SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.standalone import WorkerSize, standalone
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, fill, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

SECONDS = 120.0
SIZE = WorkerSize(cores=6)  # with Spark's source a slot for each partition, and two
PATIENT = ("--wait", "300")  # until it is in force


@pytest.mark.parametrize("source", ["shared", pytest.param("spark", marks=pytest.mark.soak)])
def test_a_paused_partition_stands_whichever_executor_dies(
    clusters: Clusters, tmp_path: Path, topic_name: str, source: Source
) -> None:
    paused, other, new = (f"{topic_name}-{letter}" for letter in "abc")
    for topic in (paused, other, new):
        fill(clusters[0], topic, 2, 20)
    settings = {
        "groups": f"{topic_name}.*",
        "A->B": {"enabled": True, "topics": [paused, other]},
        "replication.source": source,
        "replication.realtime.batch.seconds": 10,
        "refresh.topics.interval.seconds": 600,
    }
    config = write_config(tmp_path, clusters, paused, settings)
    with standalone(tmp_path / "spark", workers=2, size=SIZE) as cluster:
        command = [str(SCRIPT), "--config", str(config), "--", *cluster.job_arguments()]
        with RunningProcess("mirror", command, tmp_path / "mirror.log") as job:

            def await_copied(count: int, of_paused: int, *topics: str) -> None:
                def are_there() -> bool:
                    full = all(copied(clusters, topic) == count for topic in topics)
                    return full and copied(clusters, paused) >= of_paused

                wait_until(job.while_running(are_there), SECONDS)

            await_copied(20, 20, other)
            ok(run("pause", config, "--topic", paused, "--partition", 1, *PATIENT))
            ok(run("topics", config, "--add", new, *PATIENT))
            for topic in (paused, other, new):
                send(clusters[0], topic, 2, 20)
            await_copied(40, 30, other, new)
            next(worker for worker in cluster.workers if worker.executors()).kill_executors()
            for topic in (paused, other, new):
                send(clusters[0], topic, 2, 20)
            await_copied(60, 40, other, new)
            while_paused = copied(clusters, paused)
            ok(run("resume", config, "--topic", paused, *PATIENT))
            await_copied(60, 60, other, new)
            code = job.end()

    assert (code, while_paused) == (0, 40), "ten of the paused partition"
    assert_equal(clusters, paused, other, new)
    kinds = {event["kind"] for event in stored(tmp_path / "state", "events")}
    assert kinds - {"restarted"} == {"changed"}
