"""What a mirror of many partitions takes, beside a smaller one: is anything worse than linear?

Two brokers and the mirror run on this machine. `plan` looks at everything; then the mirror copies a
few records of each partition, looks at the topics again, takes a new topic, is stopped, started
again, killed when it has copied more, and started again. The same with fewer partitions comes
first, with as many in each topic:

    .local/venv/bin/python -m tests.bench.partitions         # 10 000 in 2000 topics, and 1000
    .local/venv/bin/python -m tests.bench.partitions --partitions 400 --beside 100
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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
from tests.bench.options import (
    add_setting_option,
    add_spark_option,
    assignments,
    new_parser,
    positive,
)
from tests.bench.peers import MODES, Mirror, Race, running
from tests.bench.usage import usage
from tests.support.local import Clusters
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess

RECORDS_EACH: Final = 10
LATE_TOPIC: Final = "many-late"
REFRESH_SECONDS: Final = 5
LOOKS: Final = 4
LOOK: Final = re.compile(r"event=topics_looked_at seconds=([\d.]+)")
MEMORY: Final = "the mirror's memory at most, MB"


class Bench:
    """One mirror's topics, and what was measured: seconds, and megabytes."""

    def __init__(self, race: Race, mirror: Mirror, many: ManyTopics) -> None:
        self.race, self.mirror, self.many = race, mirror, many
        self.figures: dict[str, float] = {}
        self._peak_bytes = 0

    def plan(self) -> None:
        """Measures the command that says what a start would do."""
        command = [sys.executable, "-m", "replication", "plan", self.mirror.command(self.race)[2]]
        began = time.monotonic()
        with RunningProcess("plan", command, self.race.folder / "plan") as process:
            process.wait(WAIT_SECONDS)
        self.figures["plan"] = time.monotonic() - began

    @contextmanager
    def started(self, what: str) -> Iterator[RunningProcess]:
        """The mirror, once it has copied all records; says how long that took as *what*."""
        began = time.monotonic()
        with running(self.mirror, self.race) as process:
            self._await(process, "event=generation_started", 1)
            self.figures[f"{what}: until its query starts"] = time.monotonic() - began
            self.many.await_copies(process)
            self.figures[f"{what}: until all is copied"] = time.monotonic() - began
            self._peak_bytes = max(self._peak_bytes, usage(process.pid).peak_rss_bytes)
            self.figures[MEMORY] = self._peak_bytes / 2**20
            yield process

    def look_again(self, process: RunningProcess) -> None:
        """Measures looks at the topics that find nothing new."""
        self._await(process, LOOK.pattern, LOOKS)
        _, *refreshes = map(float, LOOK.findall(self._log()))  # the first one is the start's
        self.figures["a refresh of the topics"] = statistics.median(refreshes)

    def take_topic(self, process: RunningProcess) -> None:
        """Creates a topic with a record, and measures until the record is copied."""
        self.many.add(LATE_TOPIC)
        began = time.monotonic()
        self.many.send(RECORDS_EACH, [LATE_TOPIC])
        self.many.await_copies(process)
        what = f"a new topic, looked for every {REFRESH_SECONDS} s"
        self.figures[what] = time.monotonic() - began

    def copy_more(self, process: RunningProcess) -> None:
        """Sends more records to each partition, and measures until they are copied."""
        self.many.send(RECORDS_EACH)
        began = time.monotonic()
        self.many.await_copies(process)
        what = f"{RECORDS_EACH} more records in each partition"
        self.figures[what] = time.monotonic() - began

    def stop(self, process: RunningProcess) -> None:
        """Stops the mirror, and measures that."""
        began = time.monotonic()
        process.end()
        self.figures["stop"] = time.monotonic() - began

    def _log(self) -> str:
        return (self.race.folder / "log").read_text(errors="replace")

    def _await(self, process: RunningProcess, pattern: str, times: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while len(re.findall(pattern, self._log())) < times:
            pause(process, deadline)


def main() -> int:
    """Prints the table; the exit code is 1 if something is worse than linear."""
    options = _options()
    raise_file_limit(options.partitions)
    sizes = sorted({min(options.beside, options.partitions), options.partitions})
    figures = {size: _measured(size, options) for size in sizes}
    console = Console()
    console.print(_table(figures, options))
    few, many = figures[sizes[0]], figures[sizes[-1]]
    worse = [what for what in few if many[what] > few[what] * sizes[-1] / sizes[0]]
    console.print(f"worse than linear: {', '.join(worse) or 'nothing'}")
    return 1 if worse else 0


def _table(figures: Mapping[int, Mapping[str, float]], options: argparse.Namespace) -> Table:
    table = Table(title=f"{options.each} partitions in each topic, {options.mode}; seconds")
    table.add_column("partitions")
    for size in figures:
        table.add_column(f"{size:,}", justify="right")
    for what in next(iter(figures.values())):
        digits = 0 if what == MEMORY else 1
        table.add_row(what, *(f"{found[what]:,.{digits}f}" for found in figures.values()))
    return table


def _measured(partitions: int, options: argparse.Namespace) -> dict[str, float]:
    heap_mb = options.broker_heap_mb or broker_heap_mb(options.partitions)
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=heap_mb)
    with (
        tempfile.TemporaryDirectory(prefix="partitions-") as name,
        two_clusters(Path(name, "brokers"), brokers) as clusters,
    ):
        bench = _bench(clusters, Path(name, "mirror"), partitions, options)
        try:
            _measure(bench)
        finally:
            if options.log:
                log = bench.race.folder / "log"
                options.log.write_text(log.read_text(errors="replace"))
    return bench.figures


def _measure(bench: Bench) -> None:
    bench.many.create()
    bench.many.send(RECORDS_EACH)
    bench.plan()
    with bench.started("first start") as mirror:
        bench.look_again(mirror)
        bench.take_topic(mirror)
        bench.stop(mirror)
    with bench.started("start") as mirror:
        bench.copy_more(mirror)
        kill(family(mirror.pid))
    with bench.started("start after a crash") as mirror:
        bench.stop(mirror)


def _bench(clusters: Clusters, folder: Path, partitions: int, options: argparse.Namespace) -> Bench:
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
        **assignments(options.set),
    }
    slots = ("--master", f"local[{options.slots}]") if options.slots else ()
    mirror = Mirror(
        mode=options.mode,
        settings=settings,
        arguments=("--log-level", "debug"),
        spark=(*slots, *options.spark),
    )
    topics = [f"many-{number}" for number in range(partitions // options.each)]
    return Bench(race, mirror, ManyTopics(clusters, [race.source], topics, options.each))


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--partitions", type=positive, default=10_000)
    parser.add_argument(
        "--beside", type=positive, default=1000, help="partitions of the smaller one"
    )
    parser.add_argument("--each", type=positive, default=5, help="partitions of a topic")
    parser.add_argument("--mode", choices=MODES[:2], default="realtime", help="of the mirror")
    parser.add_argument("--slots", type=int, default=0, help="task slots; 0 as many as it needs")
    add_setting_option(parser)
    add_spark_option(parser)
    parser.add_argument("--broker-heap-mb", type=int, help="heap of each broker")
    parser.add_argument("--log", type=Path, help="a file for the mirror's last log")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
