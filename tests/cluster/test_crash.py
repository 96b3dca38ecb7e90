"""kill -9 of the whole process tree in mid-batch, again and again, in every mode (design.md, D8).

The mirror runs as a user runs it, through spark-submit.sh. After the last crash a drain finishes
the work, and both sides are compared in full: nothing is missing, nothing is there twice.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.compacted_topic import create_compacted_topic
from replication.demo.compare import compare
from replication.demo.mirror_process import MirrorProcess
from replication.demo.paced import PacedProducer
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, send_transactions, sending
from replication.errors import FlowError
from replication.model import Mode, TopicPartition
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.topics import fill, now_ms

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


BACKLOG_RECORDS = 600_000
START_SECONDS = 120.0
REFUSAL_SECONDS = 5.0


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
    at_ms = now_ms()
    create_topic(source.bootstrap, dense, 3)
    create_topic(source.bootstrap, transactional, 2)
    create_compacted_topic(source.bootstrap, compacted, 2, now_ms=at_ms)
    with sending(source.bootstrap) as sender:
        backlog = islice(plain_records(3, size_bytes=200, now_ms=at_ms), BACKLOG_RECORDS)
        sender.send_all(dense, backlog)
    stream = plain_records(2, size_bytes=200, now_ms=at_ms)
    send_transactions(
        source.bootstrap,
        transactional,
        islice(stream, 20_000),
        records_each=100,
        abort_every=4,
    )
    config = write_config(tmp_path, clusters, f"{topic_name}.*", settings(topic_name))
    log = tmp_path / "mirror.log"

    with producing(source, dense, transactional, at_ms):
        for _ in range(crashes):
            before = log_ends(target.bootstrap, topics.values())
            mirror = start_mirror(config, log, "--mode", mode)
            await_growth(target, topics, before, mirror)
            kill_tree(mirror.pid)
            with pytest.raises(FlowError, match="exit code -9"):
                mirror.run_for(10)
            mirror.discard()
    finished = spark_submit(config, "--mode", "drain")

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
    fill(source, topic_name, 1, 10)
    config = write_config(tmp_path, clusters, topic_name, settings(topic_name))
    mirror = start_mirror(config, tmp_path / "first.log")
    try:
        await_growth(target, {topic_name: f"A.{topic_name}"}, {f"A.{topic_name}": 0}, mirror)
        started = time.monotonic()
        second = spark_submit(config)
        seconds = time.monotonic() - started
        stop = replication("stop", config)
    finally:
        mirror.discard()

    assert second.returncode == 4
    assert seconds < REFUSAL_SECONDS, "it is refused before Spark starts"
    assert "flow A->B is already running on this state.dir" in second.stderr
    assert (stop.returncode, stop.stdout) == (0, "A->B stopped\n"), stop.stderr


def settings(topics: str) -> dict[str, object]:
    """Settings beyond those of every test's configuration."""
    return {
        "A.consumer.isolation.level": "read_committed",
        "groups": [f"{topics}.*"],  # other tests have groups on these clusters
        "replication.batch.max.records": 100_000,
        "replication.realtime.batch.seconds": 5,
    }


@contextmanager
def producing(source: Broker, dense: str, transactional: str, at_ms: int) -> Iterator[None]:
    producers = [
        PacedProducer(
            source.bootstrap,
            {dense: plain_records(3, size_bytes=200, now_ms=at_ms)},
            records_per_second=500,
        ),
        PacedProducer(
            source.bootstrap,
            {transactional: plain_records(2, size_bytes=200, now_ms=at_ms)},
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
