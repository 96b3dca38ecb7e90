"""The course of a race: the two clusters, the filled topic, and what each contender does."""

import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from replication.demo.topic_log import TopicLog
from replication.demo.workload import create_topic
from replication.kafka.cluster import Cluster
from tests.bench.latency import WARM_UP_SECONDS, Copies, Latency, PollInterval, copies_seen, summary
from tests.bench.load import Load, Log, delete, into_page_cache
from tests.bench.peers import TARGET, Contender, Race, running
from tests.bench.throughput import START_TIMEOUT_SECONDS, Throughput, throughput
from tests.bench.usage import Usage, usage
from tests.support.local import Clusters
from tests.support.running_process import RunningProcess

FILLED: Final = "filled"
WARM_UP: Final = "warm-up"
WARM_UP_RECORDS: Final = 200_000
WARM_UP_RATE: Final = 1000.0  # records per second
POLL_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0


class Course:
    """Two clusters and a topic that every contender copies.

    Args:
        folder: For logs and configurations.
        clusters: The source and the target.
        load: Of the filled topic; the topics of the latency race have the same shape.
        topic: The name of the filled topic.
        addresses: Of the source and the target as contenders know them, if they are far away.
    """

    def __init__(
        self,
        folder: Path,
        clusters: Clusters,
        load: Load,
        *,
        topic: str = FILLED,
        addresses: tuple[str, str] | None = None,
    ) -> None:
        self._folder, self._load, self._topic = folder, load, topic
        self._brokers = clusters
        self._bootstraps = clusters[0].bootstrap, clusters[1].bootstrap
        self._addresses = addresses or self._bootstraps
        self._source, self._target = (
            Cluster(alias, {"bootstrap.servers": bootstrap})
            for alias, bootstrap in zip(("source", TARGET), self._bootstraps, strict=True)
        )

    def warm_up(self) -> None:
        """Writes to and reads from each broker, so that the first contender meets warm ones."""
        few = replace(self._load, records=min(self._load.records, WARM_UP_RECORDS), span_seconds=0)
        for bootstrap in self._bootstraps:
            few.fill(bootstrap, WARM_UP)
            log = TopicLog(bootstrap, WARM_UP, "read_uncommitted")
            for partition in range(few.partitions):
                for _ in log.records(partition):
                    pass
            delete(bootstrap, WARM_UP)

    def without_contender(self) -> Latency:
        """The latency between a producer and a consumer of the target, while both clusters work.

        No copy can be faster. Before the first contender it warms the brokers: what a request for
        one record runs is compiled then, which takes one to two minutes on two cores.
        """
        began = time.monotonic()
        with ThreadPoolExecutor() as pool:
            _, of_target = pool.map(self._paced, self._bootstraps)
        took = time.monotonic() - began
        return summary(of_target, self._pace(WARM_UP_RATE, WARM_UP_SECONDS), Usage(), took)

    def fill(self) -> None:
        """Creates and fills the topic that every contender copies."""
        self._load.fill(self._bootstraps[0], self._topic)

    def clear(self) -> None:
        """Deletes that topic."""
        delete(self._bootstraps[0], self._topic)

    def throughput(
        self, contender: Contender, number: int, others: Callable[[], Sequence[int]] = list
    ) -> Throughput:
        """Round *number* of copying the filled topic from the start.

        Args:
            contender: Who copies.
            number: Of the round. The contender's alias of the source has it, so each is new.
            others: Processes that work for it beside its own process and descendants.
        """
        race = self._race(contender, self._topic, f"{contender.name}{number}")
        copy = Log(self._target, race.remote_topic, self._load.partitions)
        into_page_cache(self._brokers[0].folder / "data", self._topic)
        with running(contender, race) as process:
            measured = throughput(
                process, copy, self._load.records, lambda: usage(process.pid, *others())
            )
        delete(self._bootstraps[1], race.remote_topic)
        return measured

    def whole(self, contender: Contender, number: int) -> tuple[float, Usage]:
        """Round *number* of a contender that ends when it has copied the filled topic.

        Returns:
            The seconds from its start to its end, and what it used.
        """
        race = self._race(contender, self._topic, f"{contender.name}{number}")
        into_page_cache(self._brokers[0].folder / "data", self._topic)
        before, began = _cpu_of_ended_children(), time.monotonic()
        with running(contender, race) as process:
            peak_bytes = 0
            while not process.has_ended(LOOK_SECONDS):
                peak_bytes = max(peak_bytes, usage(process.pid).peak_rss_bytes)
            seconds = time.monotonic() - began
            process.check()
        cpu_seconds = _cpu_of_ended_children() - before
        copy = Log(self._target, race.remote_topic, self._load.partitions)
        if (copied := copy.records()) != self._load.records:
            raise process.failure(f"ended with {copied} of {self._load.records} records copied")
        delete(self._bootstraps[1], race.remote_topic)
        return seconds, Usage(cpu_seconds, peak_rss_bytes=peak_bytes)

    def latencies(
        self, contender: Contender, number: int, rates: Sequence[float], seconds: float
    ) -> tuple[Latency, ...]:
        """Round *number*: the contender catches up on a small topic, then runs at each rate."""
        topic = f"paced-{contender.name}-{number}"
        few = replace(self._load, records=min(self._load.records, WARM_UP_RECORDS), span_seconds=0)
        race = self._race(contender, topic, f"{contender.name}{number}paced")
        few.fill(self._bootstraps[0], topic)
        found = []
        with running(contender, race) as process:
            self._catch_up(process, race)
            for rate in rates:
                pace = self._pace(rate, seconds)
                began, before = time.monotonic(), usage(process.pid)
                seen = copies_seen(*self._bootstraps, (topic, race.remote_topic), pace)
                process.check()
                used, took = usage(process.pid) - before, time.monotonic() - began
                found.append(summary(seen, pace, used, took))
        for bootstrap, name in zip(self._bootstraps, (topic, race.remote_topic), strict=True):
            delete(bootstrap, name)
        return tuple(found)

    def _paced(self, bootstrap: str) -> Copies:
        create_topic(bootstrap, WARM_UP, self._load.partitions)
        pace = self._pace(WARM_UP_RATE, WARM_UP_SECONDS)
        seen = copies_seen(bootstrap, bootstrap, (WARM_UP, WARM_UP), pace)
        delete(bootstrap, WARM_UP)
        return seen

    def _pace(self, rate: float, seconds: float) -> PollInterval:
        return PollInterval(
            partitions=self._load.partitions,
            size_bytes=self._load.size_bytes,
            records_per_second=rate,
            seconds=seconds,
        )

    def _race(self, contender: Contender, topic: str, source: str) -> Race:
        return Race(
            folder=self._folder / f"{contender.name}-{source}-{topic}",
            source=source,
            source_bootstrap=self._addresses[0],
            target_bootstrap=self._addresses[1],
            topic=topic,
        )

    def _catch_up(self, process: RunningProcess, race: Race) -> None:
        """Returns once the copy is as long as the original."""
        original = Log(self._source, race.topic, self._load.partitions)
        copy = Log(self._target, race.remote_topic, self._load.partitions)

        def lag() -> int:
            return original.records() - copy.records()

        if not _until(lambda: lag() == 0, process, START_TIMEOUT_SECONDS):
            raise process.failure(
                f"still lags by {lag()} records after {START_TIMEOUT_SECONDS:g} s"
            )


def _cpu_of_ended_children() -> float:
    """Of this program; each includes the children that it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _until(condition: Callable[[], bool], process: RunningProcess, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        process.check()
        if condition():
            return True
        time.sleep(POLL_SECONDS)  # between two checks; there is no event to wait for
    return False
