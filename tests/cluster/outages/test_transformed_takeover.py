"""The owner of a transformed flow is killed and a standby goes on; an executor of one is killed.

The target then holds what the source's records become, once and in order, and the offset map is
right for each of them.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from replication.demo.play import MirrorProcess
from replication.demo.topic_log import Content, log_ends
from replication.demo.workload import create_topic
from replication.model import Mode, TopicPartition
from replication.offsets.map import OffsetMap
from tests.support.commands import QUICK_START, spark_submit, start_mirror
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.standalone import WorkerSize, standalone
from tests.support.stored import stored, stored_runs
from tests.support.topics import send_records
from tests.support.transformed import (
    SETTINGS,
    Becomes,
    assert_transformed,
    expected,
    masked_seventh,
    people,
    unsafe_answers,
)
from tests.support.two_machines import write_two_configs
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1800)]

PARTITIONS = 2
FIRST, BACKLOG, LAST = 1_400, 140_000, 7_000
KEPT = 7  # of so many people, `SETTINGS` keep one
START_SECONDS = 90.0
COPY_SECONDS = 240.0


def send(clusters: Clusters, topic: str, start: int, end: int) -> None:
    send_records(clusters[0], topic, islice(people(PARTITIONS, start), end - start))


def copied(clusters: Clusters, topic: str) -> int:
    return log_ends(clusters[1].bootstrap, [f"A.{topic}"]).get(f"A.{topic}", 0)


def until_more(clusters: Clusters, topic: str, count: int, job: MirrorProcess) -> None:
    """Returns once *job* has copied more than *count* records."""

    def look() -> bool:
        job.check()
        return copied(clusters, topic) > count

    wait_until(look, COPY_SECONDS)


def started(
    stack: ExitStack, config: Path, *arguments: str, spark: Sequence[str] = QUICK_START
) -> MirrorProcess:
    job = start_mirror(config, config.with_suffix(".log"), *arguments, spark=spark)
    stack.callback(job.discard)
    return job


def settings(topic: str, batch_seconds: int) -> dict[str, object]:
    return {
        **SETTINGS,
        "groups": [f"{topic}.*"],
        "replication.realtime.batch.seconds": batch_seconds,
    }


def assert_whole(clusters: Clusters, topic: str, state: Path, becomes: Becomes) -> None:
    assert_transformed(clusters, topic, PARTITIONS, becomes)
    for partition in range(PARTITIONS):
        offsets = OffsetMap(stored_runs(state, FLOW, TopicPartition(topic, partition)))
        assert unsafe_answers(clusters, topic, partition, offsets, becomes) == []


def by_both(begins: Mapping[int, int], every: int, topic: str, one: Content) -> Content | None:
    """What a record becomes, if from the offset *begins* of a partition on one of *every* stays."""
    number = int(one.value.split(b":")[1].split(b",")[0]) if one.value else 0
    row = number // KEPT
    offset = row // PARTITIONS * KEPT + number % KEPT
    is_new = offset >= begins.get(row % PARTITIONS, BACKLOG + LAST)
    return None if is_new and number % every else masked_seventh(topic, one)


@pytest.mark.parametrize(
    "every",
    [
        pytest.param(3 * KEPT, marks=pytest.mark.guarantee, id="with another filter"),
        pytest.param(KEPT, marks=pytest.mark.soak, id="with the same"),
    ],
)
def test_a_standby_goes_on_behind_what_the_killed_owner_wrote(
    clusters: Clusters, tmp_path: Path, topic_name: str, every: int
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    send(clusters, topic_name, 0, FIRST)
    first, second = write_two_configs(tmp_path, clusters, topic_name, settings(topic_name, 5), FLOW)
    second.write_text(second.read_text().replace(f"% {KEPT} = 0", f"% {every} = 0"))
    state = tmp_path / "first" / "state"

    with ExitStack() as stack:
        owner = started(stack, first, "--mode", "realtime")
        until_more(clusters, topic_name, FIRST // KEPT - 1, owner)
        standby = started(stack, second, "--mode", "realtime", "--standby")
        wait_until(lambda: "event=lease_awaited" in standby.log.read_text(), START_SECONDS)
        sending = threading.Thread(target=send, args=(clusters, topic_name, FIRST, BACKLOG))
        sending.start()
        until_more(clusters, topic_name, FIRST // KEPT, owner)
        kill_tree(owner.pid)
        sending.join()
        wait_until(lambda: "event=generation_started" in standby.log.read_text(), COPY_SECONDS)
        before = copied(clusters, topic_name)
        send(clusters, topic_name, BACKLOG, BACKLOG + LAST)
        until_more(clusters, topic_name, before, standby)
        standby.stop()
    finished = spark_submit(second, "--mode", "drain")

    assert finished.returncode == 0, finished.stdout[-3000:]
    events = stored(state, "events")
    begins = {event.partition: event.offset_from for event in events}
    is_changed = every != KEPT
    assert {event.kind for event in events} == ({"transform-changed"} if is_changed else set())
    assert len(events) == len(begins) == (PARTITIONS if is_changed else 0)
    assert_whole(clusters, topic_name, state, partial(by_both, begins, every))


@pytest.mark.parametrize("mode", ["realtime", pytest.param("microbatch", marks=pytest.mark.soak)])
def test_a_lost_executor_loses_and_repeats_nothing_of_what_is_transformed(
    clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    send(clusters, topic_name, 0, BACKLOG)
    more = {**settings(topic_name, 30), "replication.batch.max.records": 20_000}
    config = write_config(tmp_path, clusters, topic_name, more)
    size = WorkerSize(cores=PARTITIONS + 2)

    with standalone(tmp_path / "spark", workers=2, size=size) as cluster, ExitStack() as stack:
        spark = ("--", *cluster.job_arguments())
        job = started(stack, config, "--mode", mode, spark=spark)
        until_more(clusters, topic_name, 0, job)
        next(worker for worker in cluster.workers if worker.executors()).kill_executors()
        send(clusters, topic_name, BACKLOG, BACKLOG + LAST)
        kept = sum(
            len(expected(clusters, topic_name, partition, masked_seventh))
            for partition in range(PARTITIONS)
        )
        until_more(clusters, topic_name, kept - 1, job)
        job.stop()
    finished = spark_submit(config, "--mode", "drain")

    assert finished.returncode == 0, finished.stdout[-3000:]
    events = stored(tmp_path / "state", "events")
    assert {event.kind for event in events} == {"restarted"}
    assert any("executor" in event.text for event in events), events
    assert_whole(clusters, topic_name, tmp_path / "state", masked_seventh)
