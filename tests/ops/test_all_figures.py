"""Every figure of the registry has a value in a running mirror; jobs that run alone are seen."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from replication.config.file import load_config
from replication.control.flow_answers import FlowAnswer, FlowAnswers
from replication.demo.brokers import free_port
from replication.demo.workload import create_topic
from replication.errors import NoAnswerError
from replication.figures.registry import FIGURES, PREFIX
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.driver import page, running
from tests.support.flows import unique_flow
from tests.support.known_load import load
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import kill_tree
from tests.support.topics import fill
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

SECONDS = 90.0

NEEDS_MORE = {
    "ended_timestamp_seconds": "the flow has ended",
    "exit_code": "the same",
    "retention_headroom_seconds": "a topic lags by more than a minute",
    "partition_lag_records": "a partition lags at the moment of a look",
    "partition_lag_seconds": "the same",
    "topic_paused": "an operator has paused a partition",
    "throttle_seconds": "a quota holds the flow back",
}
"""Figures that a healthy mirror does not have, and when they are there; other tests have those."""


def shown(port: int) -> set[str]:
    """The figures of which the driver shows a value."""
    status, text = page(port, "/metrics")
    names = re.findall(rf"^{PREFIX}(\w+){{", text, re.MULTILINE) if status == 200 else []
    return {name.removesuffix("_bucket") for name in names}


def commit(bootstrap: str, group: str, topic: str) -> None:
    """Commits an offset, as a consumer does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[Partition(topic, 0, 3)], asynchronous=False)
    consumer.close()


def test_a_running_mirror_has_a_value_of_every_figure(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    port, long, flow = free_port(), f"{topic_name}-long".ljust(248, "x"), unique_flow()
    group, own = f"g-{topic_name}", f"{topic_name}-own"
    settings = {
        "metrics.port": port,
        "heartbeats.replication.enabled": True,
        "replication.limit.bytes.per.second": "1GB",
        "replication.limit.records.per.second": 1_000_000,
        "groups": group,
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "refresh.topics.interval.seconds": "2",
    }
    file = write_config(tmp_path, clusters, f"{topic_name}.*", settings, flow)
    create_topic(clusters[0].bootstrap, own, 1)
    wanted = {figure.name for figure in FIGURES if figure.is_metric} - NEEDS_MORE.keys()
    with running(file, port), load(clusters[0], own, 1, 50, 100):
        wait_until(lambda: "records_total" in shown(port), SECONDS)
        commit(clusters[0].bootstrap, group, own)
        wait_until(lambda: not wanted - shown(port) - {"topic_set_aside"}, SECONDS)
        fill(clusters[0], long, 1, 10)  # is set aside, so that not all lag is known
        wait_until(lambda: "topic_set_aside" in shown(port), SECONDS)


@contextmanager
def clock_set(seconds: float) -> Iterator[None]:
    """Sets the clock of this process ahead for the block."""
    with pytest.MonkeyPatch.context() as patch:
        real = time.time
        patch.setattr(time, "time", lambda: real() + seconds)
        yield


def ask(file: Path) -> FlowAnswer | None:
    """How the only flow is, as a command sees it that has just come; None before the first job."""
    config = load_config(str(file))
    with FlowAnswers(config, config.flows) as answers, suppress(NoAnswerError):
        (found,) = answers.ask()
        return found
    return None


def parts(file: Path) -> dict[str, str]:
    """The state of each part of which something was heard."""
    answer = ask(file)
    if answer is None or answer.last.entry is None:
        return {}
    others = {str(one.entry.part): str(one.state) for one in answer.others}
    return {answer.last.entry.part: answer.state, **others}


def test_jobs_that_run_alone_are_seen_and_no_clock_makes_them_silent(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """The status of each part is its own process's, and it is silent where that was killed."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    file = write_config(tmp_path, clusters, topic_name, flow=unique_flow())
    jobs = ("metadata", "heartbeats", "checkpoints")
    with ExitStack() as stack:
        mirrors = {}
        for job in jobs:
            mirror = start_mirror(file, tmp_path / f"{job}.log", "--job", job)
            stack.callback(mirror.discard)
            mirrors[job] = mirror

        wait_until(lambda: set(parts(file)) == {*jobs}, 2 * SECONDS)
        wait_until(lambda: set(parts(file).values()) == {"running"}, SECONDS)
        for jump in (-3600.0, 3600.0):
            with clock_set(jump):
                wait_until(lambda: set(parts(file).values()) == {"running"}, SECONDS)
        lines = ok(run("status", file)).stdout
        assert "(checkpoints only)" in lines
        assert "  job metadata: running on " in lines
        kill_tree(mirrors["metadata"].pid)
        wait_until(lambda: parts(file)["metadata"] == "silent", SECONDS)
        code = run("status", file, "--check")
        assert (code.exit_code, "job metadata: no process holds" in code.stdout) == (9, True)
