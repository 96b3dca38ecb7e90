"""What a soak runs on: two clusters, a Spark cluster, the load, and the mirror's processes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replication.config.home import home
from replication.demo.brokers import QUICK_COMPACTION, BrokerSettings, two_clusters
from replication.kafka.cluster import Cluster
from replication.model import Mode, TopicPartition
from tests.soak.load import PATTERN, Load, patient_cluster
from tests.soak.processes import Drains, Job, Mirrors, Pair
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.standalone import Standalone, WorkerSize, standalone
from tests.support.two_machines import write_two_configs

MOST_PARTITIONS = 28
SLOTS = 2 * (MOST_PARTITIONS + 2)
"""Half of them on each worker: then one executor suffices for Real-Time Mode."""

SIZE = WorkerSize(cores=2 * SLOTS, memory="2g")
"""For two applications: one may end while the next one starts."""

SETTINGS = {
    "A.consumer.isolation.level": "read_committed",
    "groups": [PATTERN],
    "replication.realtime.batch.seconds": 20,
    "replication.batch.max.records": 10_000,
    "refresh.topics.interval.seconds": 5,
    "replication.source": "auto",  # else that of the test whose turn it is
    "rest.port": 0,
}
LIMIT_SECONDS = 420.0
LOOK_SECONDS = 0.25


class StuckError(Exception):
    """Something did not happen in time; the text says what."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that runs; a driver that is spared is ended and paused by no fault."""

    folder: Path
    configs: tuple[Path, Path]
    clusters: Clusters
    spark: Standalone
    load: Load
    mirrors: Mirrors
    target: Cluster
    is_driver_spared: bool

    def attend(self) -> None:
        """Starts again what has ended: producers and mirrors."""
        self.load.attend()
        self.mirrors.attend()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Returns once *condition* is true; attends to everything meanwhile.

        Raises:
            StuckError: It is not true in time.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise StuckError(f"{what}: not within {LIMIT_SECONDS:g} s")
            self.attend()
            time.sleep(LOOK_SECONDS)  # between two looks

    def pass_time(self, seconds: float) -> None:
        """Lets a fault last."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.attend()
            time.sleep(min(LOOK_SECONDS, left))

    def active(self) -> Job:
        """The job that replicates, as soon as one does."""
        found: list[Job] = []

        def is_one_active() -> bool:
            job = self.mirrors.active()
            found.extend([job] if job else [])
            return bool(job)

        self.until(is_one_active, "a job that replicates")
        return found[-1]

    def active_in_mid_copy(self, delay_seconds: float) -> Job:
        """The active job, so many seconds after many records have come for it.

        A drain copies what was there when it started; it may have ended by then.
        """
        if self.mirrors.is_standing:
            job = self.active()
            self.load.burst()
        else:
            self.load.burst()
            earlier = self.mirrors.jobs()
            self.until(lambda: self.mirrors.jobs() != earlier, "the next drain")
            job = self.active()
        self.pass_time(delay_seconds)
        return job

    def await_flow(self, topics: list[str] | None = None) -> None:
        """Returns once records that are produced after the call are copied, in each partition.

        Raises:
            StuckError: They are not.
        """
        if topics is None:
            marks: Mapping[TopicPartition, int] = self.load.ends()
        else:  # with gaps: the offsets of both sides differ
            marks = self._copied(self.load.ends(topics))
        self.until(
            lambda: all(self._copied(marks)[tp] > mark for tp, mark in marks.items()),
            f"records after {dict(marks)} on {', '.join(topics or ['the topics without gaps'])}",
        )

    def _copied(self, partitions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The log ends of the remote partitions, by upstream partition; 0 without one."""
        remote = {
            tp: TopicPartition(f"{FLOW.source}.{tp.topic}", tp.partition) for tp in partitions
        }
        ends = self.target.log_ends(remote.values())
        return {tp: ends.get(copy, 0) for tp, copy in remote.items()}


@contextmanager
def running_scene(
    folder: Path, mode: Mode, say: Callable[[str], None], *, is_driver_spared: bool
) -> Iterator[Scene]:
    """Starts everything, and ends what still runs at the end of the block.

    A driver that is spared has no standby, which would take over after a long outage.
    """
    jars = home() / "jars" / "kafka"
    brokers = BrokerSettings(jars=jars, properties=QUICK_COMPACTION)
    with (
        two_clusters(folder / "brokers", brokers) as clusters,
        standalone(folder / "spark", workers=2, size=SIZE) as spark,
    ):
        load = Load(clusters[0].bootstrap)
        load.fill()
        configs = write_two_configs(folder, clusters, PATTERN, SETTINGS, FLOW)
        arguments = ["--", *spark.job_arguments(SLOTS)]
        mirrors: Mirrors
        if mode == "drain":
            mirrors = Drains(folder, arguments, say, configs[0])
        else:
            machines = configs[:1] if is_driver_spared else configs
            mirrors = Pair(folder, arguments, say, machines, mode)
        target = patient_cluster("B", clusters[1].bootstrap)
        try:
            yield Scene(folder, configs, clusters, spark, load, mirrors, target, is_driver_spared)
        finally:
            load.finish()
            mirrors.stop()
