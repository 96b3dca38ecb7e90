"""kill -9 of the whole process tree in mid-batch, again and again, in every mode (design.md, D8).

The mirror runs as a user runs it, through spark-submit.sh. After the last crash a drain finishes
the work, and both sides are compared in full: nothing is missing, nothing is there twice.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import Broker
from replication.demo.compacted_topic import create_compacted_topic
from replication.demo.compare import compare
from replication.demo.mirror_process import MirrorProcess
from replication.demo.paced import PacedProducer
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, send_transactions, sending
from replication.errors import FlowError
from replication.model import Flow, Mode, TopicPartition
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

Clusters = tuple[Broker, Broker]

SCRIPT = Path(__file__).resolve().parents[2] / "spark-submit.sh"
FLOW = Flow("A", "B")
BACKLOG_RECORDS = 600_000
START_SECONDS = 120.0
REFUSAL_SECONDS = 5.0
# one compiler halves the CPU seconds of a start, of which there are many here
QUICK_START = ["--", "--conf", "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1"]


@pytest.mark.parametrize(
    ("mode", "crashes"),
    [
        pytest.param("realtime", 3, id="realtime"),
        pytest.param("microbatch", 3, id="microbatch"),
        pytest.param("drain", 3, id="drain"),
        *(
            pytest.param(
                mode, 20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)], id=f"{mode}-long"
            )
            for mode in ("realtime", "microbatch", "drain")
        ),
    ],
)
def test_crashes_lose_and_repeat_nothing(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    crashes: int,
) -> None:
    source, target = clusters
    dense, transactional, compacted = (f"{topic_name}-{kind}" for kind in ("d", "t", "c"))
    topics = {it: f"A.{it}" for it in (dense, transactional, compacted)}
    now_ms = time.time_ns() // 1_000_000
    create_topic(source.bootstrap, dense, 3)
    create_topic(source.bootstrap, transactional, 2)
    create_compacted_topic(source.bootstrap, compacted, 2, now_ms=now_ms)
    with sending(source.bootstrap) as sender:
        backlog = islice(plain_records(3, size_bytes=200, now_ms=now_ms), BACKLOG_RECORDS)
        sender.send_all(dense, backlog)
    stream = plain_records(2, size_bytes=200, now_ms=now_ms)
    send_transactions(
        source.bootstrap,
        transactional,
        islice(stream, 20_000),
        records_each=100,
        abort_every=4,
    )
    config = write_config(tmp_path, clusters, topic_name)
    log = tmp_path / "mirror.log"

    with producing(source, dense, transactional, now_ms):
        for _ in range(crashes):
            before = log_ends(target.bootstrap, topics.values())
            arguments = ["--config", str(config), "--mode", mode, *QUICK_START]
            mirror = MirrorProcess(SCRIPT, arguments, log)
            await_growth(target, topics, before, mirror)
            kill_tree(mirror.pid)
            with pytest.raises(FlowError, match="exit code -9"):
                mirror.run_for(10)
            mirror.discard()
    finished = subprocess.run(
        [SCRIPT, "--config", config, "--mode", "drain", *QUICK_START],
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout[-3000:]
    for report in compare(source.bootstrap, target.bootstrap, topics).values():
        assert report.is_equal, str(report)
    tables = Tables(spark, (tmp_path / "state").as_uri())
    assert tables.of("events", FLOW).count() == 0
    for partition in range(3):
        (run,) = OffsetTable(tables, FLOW).runs(TopicPartition(dense, partition))
        assert run.is_dense
        assert run.src_from == run.tgt_from == 0


def test_a_second_process_is_refused_and_a_stop_request_is_answered(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(1, size_bytes=9, now_ms=0), 10))
    config = write_config(tmp_path, clusters, topic_name)
    arguments = ["--config", str(config), *QUICK_START]
    mirror = MirrorProcess(SCRIPT, arguments, tmp_path / "first.log")
    try:
        await_growth(target, {topic_name: f"A.{topic_name}"}, {f"A.{topic_name}": 0}, mirror)
        started = time.monotonic()
        second = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        python = Path(os.environ.get("REPLICATION_HOME", SCRIPT.parent / ".local"))
        stop = subprocess.run(
            [python / "venv" / "bin" / "python", "-m", "replication", "stop", config],
            cwd=SCRIPT.parent,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        mirror.discard()

    assert second.returncode == 4
    assert seconds < REFUSAL_SECONDS, "it is refused before Spark starts"
    assert "flow A->B is already running on this state.dir" in second.stderr
    assert (stop.returncode, stop.stdout) == (0, "A->B stopped\n"), stop.stderr


def write_config(folder: Path, clusters: Clusters, topics: str) -> Path:
    source, target = clusters
    settings = {
        "clusters": ["A", "B"],
        "A": {
            "bootstrap.servers": source.bootstrap,
            "consumer.isolation.level": "read_committed",
        },
        "B": {"bootstrap.servers": target.bootstrap},
        "A->B": {"enabled": True, "topics": [f"{topics}.*"]},
        **dict.fromkeys(REPLICATION_FACTORS, 1),
        "groups": [f"{topics}.*"],  # other tests have groups of their own here
        "heartbeats.replication.enabled": False,  # other tests of these clusters emit them, too
        "replication.batch.max.records": 100_000,
        "replication.realtime.batch.seconds": 5,
        "state.dir": (folder / "state").as_uri(),
    }
    file = folder / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


@contextmanager
def producing(source: Broker, dense: str, transactional: str, now_ms: int) -> Iterator[None]:
    producers = [
        PacedProducer(
            source.bootstrap,
            {dense: plain_records(3, size_bytes=200, now_ms=now_ms)},
            records_per_second=500,
        ),
        PacedProducer(
            source.bootstrap,
            {transactional: plain_records(2, size_bytes=200, now_ms=now_ms)},
            records_per_second=200,
            transactional=True,
        ),
    ]
    for producer in producers:
        producer.start()
    try:
        yield
    finally:
        for producer in producers:
            producer.finish()


def await_growth(
    target: Broker, topics: dict[str, str], before: dict[str, int], mirror: MirrorProcess
) -> None:
    """Until every remote topic that still has a way to go has grown by some records."""
    deadline = time.monotonic() + START_SECONDS
    while sum(log_ends(target.bootstrap, topics.values()).values()) <= sum(before.values()):
        assert time.monotonic() < deadline, f"nothing was copied; see {mirror.log}"
        mirror.run_for(0.02)


def kill_tree(pid: int) -> None:
    """SIGKILL for *pid* and everything it has started, the JVM and its Python among them."""
    os.kill(pid, signal.SIGSTOP)  # so that it starts nothing meanwhile
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        kill_tree(int(child))
    os.kill(pid, signal.SIGKILL)
