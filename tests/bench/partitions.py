"""How long a mirror of many partitions takes to start, to stop, and to take a new topic.

Two brokers and the mirror run on this machine. The mirror copies a few records of each partition,
takes a new topic, is stopped, started again, killed when it has copied more, and started again:

    .local/venv/bin/python -m tests.bench.partitions                         # 1000 partitions
    .local/venv/bin/python -m tests.bench.partitions --partitions 5000
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.workload import plain_records, sending
from replication.kafka.cluster import Cluster
from replication.kafka.reader import chunks
from replication.model import NewTopic, TopicPartition
from tests.bench.peers import Mirror, Race, running
from tests.bench.usage import usage
from tests.support.local import Clusters
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess

RECORDS_EACH = 10
TOPICS_AT_ONCE = 50
FILES_EACH = 4
"""Open files of a broker for a partition, with some room."""

LATE_TOPIC = "many-late"
REFRESH_SECONDS = 5
WAIT_SECONDS = 1200.0
POLL_SECONDS = 0.2


class Bench:
    """One mirror's topics, and the seconds that were measured."""

    def __init__(
        self, clusters: Clusters, race: Race, mirror: Mirror, topics: list[str], each: int
    ) -> None:
        self.race, self.mirror, self.topics, self.each = race, mirror, topics, each
        self.seconds: dict[str, float] = {}
        self.peak_bytes = 0
        self._source, self._target = (
            Cluster(name, {"bootstrap.servers": cluster.bootstrap})
            for name, cluster in zip("AB", clusters, strict=True)
        )
        self._expected = 0

    def create(self) -> None:
        """Creates the topics."""
        new = (NewTopic(name, self.each, 1) for name in self.topics)
        for some in chunks(new, TOPICS_AT_ONCE):
            self._source.create_topics(some)

    def send(self, topics: Collection[str]) -> None:
        """Sends some records to each partition of *topics*."""
        with sending(self._source.servers) as sender:
            now_ms = time.time_ns() // 1_000_000
            for topic in topics:
                records = plain_records(self.each, size_bytes=100, now_ms=now_ms)
                sender.send_all(topic, islice(records, RECORDS_EACH * self.each))
        self._expected += RECORDS_EACH * self.each * len(topics)

    @contextmanager
    def started(self, what: str) -> Iterator[RunningProcess]:
        """The mirror, once it has copied all records; says how long that took as *what*."""
        began = time.monotonic()
        with running(self.mirror, self.race) as process:
            self._await_line(process, "event=generation_started")
            self.seconds[f"{what}: until its query starts"] = time.monotonic() - began
            self.await_copies(process)
            self.seconds[f"{what}: until all is copied"] = time.monotonic() - began
            self.peak_bytes = max(self.peak_bytes, usage(process.pid).peak_rss_bytes)
            yield process

    def take_topic(self, process: RunningProcess) -> None:
        """Creates a topic with a record, and measures until the record is copied."""
        self._source.create_topics([NewTopic(LATE_TOPIC, self.each, 1)])
        self.topics.append(LATE_TOPIC)
        began = time.monotonic()
        self.send([LATE_TOPIC])
        self.await_copies(process)
        self.seconds[f"a new topic, looked for every {REFRESH_SECONDS} s"] = (
            time.monotonic() - began
        )

    def copy_more(self, process: RunningProcess) -> None:
        """Sends more records to each partition, and measures until they are copied."""
        self.send(self.topics)
        began = time.monotonic()
        self.await_copies(process)
        what = f"{RECORDS_EACH} more records in each partition"
        self.seconds[what] = time.monotonic() - began

    def stop(self, process: RunningProcess) -> None:
        """Stops the mirror, and measures that."""
        began = time.monotonic()
        process.end()
        self.seconds["stop"] = time.monotonic() - began

    def await_copies(self, process: RunningProcess) -> None:
        """Waits until all records are copied."""
        copies = [
            TopicPartition(f"{self.race.source}.{topic}", number)
            for topic in self.topics
            for number in range(self.each)
        ]
        deadline = time.monotonic() + WAIT_SECONDS
        while sum(self._target.log_ends(copies).values()) < self._expected:
            self._check(process, deadline)

    def _await_line(self, process: RunningProcess, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in (self.race.folder / "log").read_text(errors="replace"):
            self._check(process, deadline)

    def _check(self, process: RunningProcess, deadline: float) -> None:
        process.check()
        if time.monotonic() > deadline:
            raise process.failure(f"did not get there within {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)


def main() -> int:
    """Prints the table."""
    options = _options()
    _raise_file_limit(FILES_EACH * options.partitions)
    heap_mb = options.broker_heap_mb or 512 + options.partitions // 4
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=heap_mb)
    with (
        tempfile.TemporaryDirectory(prefix="partitions-") as name,
        two_clusters(Path(name, "brokers"), brokers) as clusters,
    ):
        bench = _bench(clusters, Path(name, "mirror"), options)
        _measure(bench)
        if options.log:
            options.log.write_text((bench.race.folder / "log").read_text(errors="replace"))
    table = Table(title=f"{options.partitions} partitions, {options.mode}, {options.slots} slots")
    for heading in ("what", "seconds"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for what, seconds in bench.seconds.items():
        table.add_row(what, f"{seconds:.1f}")
    table.add_row("the mirror's memory at most", f"{bench.peak_bytes / 2**20:.0f} MB")
    Console().print(table)
    return 0


def _measure(bench: Bench) -> None:
    bench.create()
    bench.send(bench.topics)
    with bench.started("first start") as mirror:
        bench.take_topic(mirror)
        bench.stop(mirror)
    with bench.started("start") as mirror:
        bench.copy_more(mirror)
        kill(family(mirror.pid))
    with bench.started("start after a crash") as mirror:
        bench.stop(mirror)


def _bench(clusters: Clusters, folder: Path, options: argparse.Namespace) -> Bench:
    race = Race(
        folder=folder,
        source="A",
        source_bootstrap=clusters[0].bootstrap,
        target_bootstrap=clusters[1].bootstrap,
        topic="many-.*",
    )
    settings = {
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": str(REFRESH_SECONDS),
    }
    spark = ("--master", f"local[{options.slots}]")
    mirror = Mirror(mode=options.mode, settings=settings, spark=spark)
    topics = [f"many-{number}" for number in range(options.partitions // options.each)]
    return Bench(clusters, race, mirror, topics, options.each)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--each", type=int, default=10, help="partitions of a topic")
    parser.add_argument("--mode", default="microbatch", help="of the mirror")
    parser.add_argument("--slots", type=int, default=8, help="task slots of the mirror")
    parser.add_argument("--broker-heap-mb", type=int, help="heap of each broker")
    parser.add_argument("--log", type=Path, help="a file for the mirror's last log")
    return parser.parse_args()


def _raise_file_limit(files: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < files:
        sys.exit(f"the brokers need {files} open files, the limit is {hard}: see ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
