"""Crashes: kill -9 of the whole process tree in mid-batch, several times, in every mode.

The mirror runs as a user runs it, through spark-submit.sh. After the last crash a drain finishes
the work, and both sides are compared in full: no record is missing, none is there twice.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from replication.demo.brokers import Broker
from replication.demo.compare import compare
from replication.demo.play import MirrorProcess
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    PacedProducer,
    ProducedRecord,
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.errors import FlowError
from replication.model import Mode, TopicPartition
from tests.support.commands import spark_submit, start_mirror
from tests.support.gate.clock import Limit
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import family, kill, kill_tree, living
from tests.support.stored import record_events, stored_runs
from tests.support.topics import fill, now_ms
from tests.support.waiting import Late, measured

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1800)]

BACKLOG_RECORDS = 300_000
START_SECONDS = 90.0
# A drain ends once it has caught up, so it comes first, while the backlog is large.
MODES: tuple[Mode, ...] = ("drain", "realtime", "microbatch")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a test on the source: one of each kind whose offsets behave differently."""

    dense: str
    transactional: str
    compacted: str

    @property
    def remote(self) -> dict[str, str]:
        """The remote topic of each."""
        return {name: f"A.{name}" for name in (self.dense, self.transactional, self.compacted)}


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param(["realtime"], marks=pytest.mark.guarantee, id="realtime"),
        pytest.param(MODES, marks=pytest.mark.soak, id="every mode"),
        *(
            pytest.param(
                [mode] * 20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)], id=f"{mode}-long"
            )
            for mode in MODES
        ),
    ],
)
def test_crashes_lose_and_repeat_nothing(
    clusters: Clusters, tmp_path: Path, topic_name: str, modes: Sequence[Mode]
) -> None:
    source, target = clusters
    topics = Topics(*(f"{topic_name}-{kind}" for kind in ("d", "t", "c")))
    fill_all(source, topics)
    config = write_config(tmp_path, clusters, f"{topic_name}.*", settings(topic_name))

    with producing(source, topics):
        for mode in modes:
            crash(config, mode, target, topics.remote.values())
    finished = spark_submit(config, "--mode", "drain")

    assert finished.returncode == 0, finished.stdout[-3000:]
    for report in compare(source.bootstrap, target.bootstrap, topics.remote).values():
        assert report.is_equal, str(report)
    state = tmp_path / "state"
    assert record_events(state) == []
    for partition in range(3):
        (run,) = stored_runs(state, FLOW, TopicPartition(topics.dense, partition))
        assert run.is_dense
        assert run.src_from == run.tgt_from == 0


def test_a_second_process_is_refused_and_the_first_stops_when_its_script_is_killed(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 10)
    config = write_config(tmp_path, clusters, topic_name, settings(topic_name))
    times, began = [time.monotonic()], Limit(START_SECONDS)
    mirror = start_mirror(config, tmp_path / "first.log")
    job: list[int] = []
    try:
        await_growth(mirror, target, [f"A.{topic_name}"])
        times.append(time.monotonic())
        second = spark_submit(config)
        times.append(time.monotonic())
        _, *job = family(mirror.pid)
        os.kill(mirror.pid, signal.SIGKILL)  # it stays a zombie: nobody has waited for it
        until(lambda: not set(job) & living(), 30)
    finally:
        kill(job)
        mirror.discard()

    assert second.returncode == 4
    start, refusal = times[1] - times[0], times[2] - times[1]
    with measured("the time until a second process is refused", began):
        assert refusal < start / 2, "it is refused before Spark starts"
    assert "is already running: " in second.stderr
    log = mirror.log.read_text()
    _, found, stop = log.partition(f"event=script_lost pid={mirror.pid} ")
    assert found, log
    assert "event=flow_ended" in stop
    assert "\tat " not in stop, "a stop prints no stack trace"


def fill_all(source: Broker, topics: Topics) -> None:
    """Creates the topics with a backlog that several crashes do not exhaust."""
    fill(source, topics.dense, 3, BACKLOG_RECORDS, stream)
    create_topic(source.bootstrap, topics.transactional, 2)
    records = islice(stream(2), 20_000)
    send_transactions(
        source.bootstrap, topics.transactional, records, records_each=100, abort_every=4
    )
    create_compacted_topic(source.bootstrap, topics.compacted, 2, now_ms=now_ms())


def stream(partitions: int) -> Iterator[ProducedRecord]:
    return plain_records(partitions, size_bytes=200, now_ms=now_ms())


def settings(topics: str) -> dict[str, object]:
    """Settings beyond those of every test's configuration."""
    return {
        "A.consumer.isolation.level": "read_committed",
        "groups": [f"{topics}.*"],  # other tests have groups on these clusters
        "replication.batch.max.records": 50_000,
        "replication.realtime.batch.seconds": 5,
    }


@contextmanager
def producing(source: Broker, topics: Topics) -> Iterator[None]:
    """Producers that keep writing to the dense and to the transactional topic."""
    producers = [
        PacedProducer(source.bootstrap, {topics.dense: stream(3)}, records_per_second=500),
        PacedProducer(
            source.bootstrap,
            {topics.transactional: stream(2)},
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


def crash(config: Path, mode: Mode, target: Broker, remote: Iterable[str]) -> None:
    """Starts the mirror, and kills all its processes while it copies."""
    before = sum(log_ends(target.bootstrap, remote).values())
    mirror = start_mirror(config, config.with_name("mirror.log"), "--mode", mode)
    try:
        await_growth(mirror, target, remote, before)
        kill_tree(mirror.pid)
        with pytest.raises(FlowError, match="exit code -9"):
            mirror.run_for(10)
    finally:
        mirror.discard()


def await_growth(
    mirror: MirrorProcess, target: Broker, remote: Iterable[str], before: int = 0
) -> None:
    """Returns once the remote topics hold more than *before* records."""
    limit = Limit(START_SECONDS)
    while sum(log_ends(target.bootstrap, remote).values()) <= before:
        if limit.is_over:
            raise Late(f"nothing was copied; see {mirror.log}", limit)
        mirror.run_for(0.02)
