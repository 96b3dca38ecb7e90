"""How long a mirror of many partitions takes to start, to stop, and to take a new topic.

Two brokers and the mirror run on this machine. The mirror copies a few records of each partition,
takes a new topic, is stopped, started again, killed when it has copied more, and started again:

    .local/venv/bin/python -m tests.bench.partitions                         # 1000 partitions
    .local/venv/bin/python -m tests.bench.partitions --partitions 5000
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from tests.bench.many import (
    WAIT_SECONDS,
    ManyTopics,
    broker_heap_mb,
    pause,
    raise_file_limit,
)
from tests.bench.options import add_spark_option, new_parser
from tests.bench.peers import MODES, Mirror, Race, running
from tests.bench.usage import usage
from tests.support.local import Clusters
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess

RECORDS_EACH = 10
LATE_TOPIC = "many-late"
REFRESH_SECONDS = 5


class Bench:
    """One mirror's topics, and the seconds that were measured."""

    def __init__(self, race: Race, mirror: Mirror, many: ManyTopics) -> None:
        self.race, self.mirror, self.many = race, mirror, many
        self.seconds: dict[str, float] = {}
        self.peak_bytes = 0

    @contextmanager
    def started(self, what: str) -> Iterator[RunningProcess]:
        """The mirror, once it has copied all records; says how long that took as *what*."""
        began = time.monotonic()
        with running(self.mirror, self.race) as process:
            self._await_line(process, "event=generation_started")
            self.seconds[f"{what}: until its query starts"] = time.monotonic() - began
            self.many.await_copies(process)
            self.seconds[f"{what}: until all is copied"] = time.monotonic() - began
            self.peak_bytes = max(self.peak_bytes, usage(process.pid).peak_rss_bytes)
            yield process

    def take_topic(self, process: RunningProcess) -> None:
        """Creates a topic with a record, and measures until the record is copied."""
        self.many.add(LATE_TOPIC)
        began = time.monotonic()
        self.many.send(RECORDS_EACH, [LATE_TOPIC])
        self.many.await_copies(process)
        self.seconds[f"a new topic, looked for every {REFRESH_SECONDS} s"] = (
            time.monotonic() - began
        )

    def copy_more(self, process: RunningProcess) -> None:
        """Sends more records to each partition, and measures until they are copied."""
        self.many.send(RECORDS_EACH)
        began = time.monotonic()
        self.many.await_copies(process)
        what = f"{RECORDS_EACH} more records in each partition"
        self.seconds[what] = time.monotonic() - began

    def stop(self, process: RunningProcess) -> None:
        """Stops the mirror, and measures that."""
        began = time.monotonic()
        process.end()
        self.seconds["stop"] = time.monotonic() - began

    def _await_line(self, process: RunningProcess, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in (self.race.folder / "log").read_text(errors="replace"):
            pause(process, deadline)


def main() -> int:
    """Prints the table."""
    options = _options()
    raise_file_limit(options.partitions)
    heap_mb = options.broker_heap_mb or broker_heap_mb(options.partitions)
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
    bench.many.create()
    bench.many.send(RECORDS_EACH)
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
    spark = ("--master", f"local[{options.slots}]", *options.spark)
    mirror = Mirror(mode=options.mode, settings=settings, spark=spark)
    topics = [f"many-{number}" for number in range(options.partitions // options.each)]
    return Bench(race, mirror, ManyTopics(clusters, [race.source], topics, options.each))


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--each", type=int, default=10, help="partitions of a topic")
    parser.add_argument("--mode", choices=MODES[:2], default="microbatch", help="of the mirror")
    parser.add_argument("--slots", type=int, default=8, help="task slots of the mirror")
    add_spark_option(parser)
    parser.add_argument("--broker-heap-mb", type=int, help="heap of each broker")
    parser.add_argument("--log", type=Path, help="a file for the mirror's last log")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
