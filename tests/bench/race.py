"""The course of a race: the two clusters, the topics, and what each contender does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from replication.demo.workload import create_topic
from replication.kafka.cluster import Cluster
from tests.bench import load
from tests.bench.latency import Latency, Pace, ascending_ms, summary
from tests.bench.peers import TARGET, Contender, Race, running
from tests.bench.throughput import START_TIMEOUT_SECONDS, Throughput, throughput
from tests.bench.usage import usage
from tests.support.running_process import RunningProcess

FILLED: Final = "filled"
PACED: Final = "paced"
WARM_UP_RECORDS: Final = 200_000
POLL_SECONDS: Final = 0.1


class Course:
    """Two clusters and a filled topic.

    Args:
        folder: For logs and configurations.
        bootstraps: ``bootstrap.servers`` of the source and of the target.
        records: Number of records in the filled topic.
        pace: Of the latency race; the filled topic has the same partitions and record sizes.
    """

    def __init__(
        self, folder: Path, bootstraps: tuple[str, str], *, records: int, pace: Pace
    ) -> None:
        self._folder, self._bootstraps = folder, bootstraps
        self._records, self._pace = records, pace
        self._source, self._target = (
            Cluster(alias, {"bootstrap.servers": bootstrap})
            for alias, bootstrap in zip(("source", TARGET), bootstraps, strict=True)
        )

    def fill(self) -> None:
        """Creates and fills the topic that every contender copies."""
        create_topic(self._bootstraps[0], FILLED, self._pace.partitions)
        self._send(FILLED, self._records)

    def throughput(self, contender: Contender, number: int) -> Throughput:
        """Round *number* of copying the filled topic from the start."""
        race = self._race(contender, FILLED, number)
        copy = load.Log(self._target, race.remote_topic, self._pace.partitions)
        with running(contender, race) as process:
            measured = throughput(process, copy, records=self._records)
        load.delete(self._bootstraps[1], race.remote_topic)
        return measured

    def latency(self, contender: Contender, number: int) -> Latency:
        """Round *number* at the given pace, by a contender that has caught up on a small topic."""
        topic = f"{PACED}-{contender.name}-{number}"
        race = self._race(contender, topic, number)
        create_topic(self._bootstraps[0], topic, self._pace.partitions)
        self._send(topic, min(self._records, WARM_UP_RECORDS))
        with running(contender, race) as process:
            self._catch_up(process, race)
            began, before = time.monotonic(), usage(process.pid)
            taken = ascending_ms(*self._bootstraps, (topic, race.remote_topic), self._pace)
            process.check()
            used, seconds = usage(process.pid) - before, time.monotonic() - began
        for bootstrap, name in zip(self._bootstraps, (topic, race.remote_topic), strict=True):
            load.delete(bootstrap, name)
        return summary(taken, self._pace, used, seconds)

    def _race(self, contender: Contender, topic: str, number: int) -> Race:
        source = f"{contender.name}{number}"
        return Race(
            folder=self._folder / f"{source}-{topic}",
            source=source if topic == FILLED else f"{source}paced",
            source_bootstrap=self._bootstraps[0],
            target_bootstrap=self._bootstraps[1],
            topic=topic,
        )

    def _send(self, topic: str, records: int) -> None:
        load.fill(
            self._bootstraps[0],
            topic,
            self._pace.partitions,
            records=records,
            size_bytes=self._pace.size_bytes,
        )

    def _catch_up(self, process: RunningProcess, race: Race) -> None:
        """Returns once the copy is as long as the original."""
        original = load.Log(self._source, race.topic, self._pace.partitions)
        copy = load.Log(self._target, race.remote_topic, self._pace.partitions)

        def lag() -> int:
            return original.records() - copy.records()

        if not _until(lambda: lag() == 0, process, START_TIMEOUT_SECONDS):
            raise process.failure(
                f"still lags by {lag()} records after {START_TIMEOUT_SECONDS:g} s"
            )


def _until(condition: Callable[[], bool], process: RunningProcess, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        process.check()
        if condition():
            return True
        time.sleep(POLL_SECONDS)  # between two checks; there is no event to wait for
    return False
