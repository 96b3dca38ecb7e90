"""How long records of one topic wait when other topics are added to the flow.

A flow copies a topic at a steady rate. After the warm-up one topic after the other is created on
the source; the flow finds each at its next topic refresh. Printed are the longest gap between two
copies and percentiles of the latency of the first topic's records, while topics are added and, for
comparison, before that:

    .local/venv/bin/python -m tests.bench.gap
    .local/venv/bin/python -m tests.bench.gap --mode microbatch --topics 5
"""

import argparse
import os
import sys
import tempfile
import time
from bisect import bisect_left
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.latency import percentile
from replication.demo.topic_log import log_ends
from tests.bench.latency import WARM_UP_SECONDS, Copies, Pace, copies_seen
from tests.bench.options import new_parser
from tests.bench.peers import MODES, Mirror, Race, running
from tests.support.local import Clusters
from tests.support.running_process import RunningProcess
from tests.support.topics import fill

PARTITIONS = 4
RECORDS = 100
QUIET_SECONDS = 20.0
BETWEEN_SECONDS = 10.0
SETTLE_SECONDS = 10.0
WAIT_SECONDS = 300.0
POLL_SECONDS = 0.1


def main() -> int:
    """Prints the table; the exit code is 1 if an added topic was not copied."""
    options = _options()
    load = os.getloadavg()[0]
    seconds = QUIET_SECONDS + options.topics * BETWEEN_SECONDS + SETTLE_SECONDS
    pace = Pace(
        partitions=PARTITIONS, size_bytes=100, records_per_second=options.rate, seconds=seconds
    )
    with (
        tempfile.TemporaryDirectory(prefix="gap-") as name,
        two_clusters(
            Path(name, "brokers"), BrokerSettings(jars=home() / "jars" / "kafka")
        ) as clusters,
    ):
        seen, added_ns, missing = _measure(options, Path(name), clusters, pace)
    before = bisect_left(seen.seen_ns, added_ns)
    table = Table(title=f"{options.mode}, {options.rate:g} records/s; load before: {load:.1f}")
    for heading in ("", "records", "longest gap ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("before", *_figures(seen[:before]))
    table.add_row(f"{options.topics} topics added", *_figures(seen[before:]))
    Console().print(table)
    for topic in missing:
        Console(stderr=True).print(f"{topic} was added and not copied")
    return 1 if missing else 0


def _measure(
    options: argparse.Namespace, folder: Path, clusters: Clusters, pace: Pace
) -> tuple[Copies, int, list[str]]:
    """The first topic's copies, when the first topic was added, and which ones were not copied."""
    source, target = clusters
    race = Race(
        folder=folder / "race",
        source="s",
        source_bootstrap=source.bootstrap,
        target_bootstrap=target.bootstrap,
        topic="gap",
    )
    settings = {"{source}->{target}.topics": "gap.*", "refresh.topics.interval.seconds": "2"}
    fill(source, race.topic, PARTITIONS, RECORDS)
    added = [f"gap-{number}" for number in range(options.topics)]
    contender = Mirror(mode=options.mode, settings=settings)
    with running(contender, race) as process, ThreadPoolExecutor(1) as pool:
        _await_copies(process, target.bootstrap, race.remote_topic)
        topics = race.topic, race.remote_topic
        seen: Future[Copies] = pool.submit(
            copies_seen, source.bootstrap, target.bootstrap, topics, pace
        )
        time.sleep(WARM_UP_SECONDS + QUIET_SECONDS)
        added_ns = time.time_ns()
        for topic in added:
            fill(source, topic, 1, RECORDS)
            time.sleep(BETWEEN_SECONDS)
        copies = seen.result()
        process.check()
        ends = log_ends(target.bootstrap, [f"{race.source}.{topic}" for topic in added])
        process.end()
    return copies, added_ns, [topic for topic, end in ends.items() if end < RECORDS]


def _await_copies(process: RunningProcess, bootstrap: str, topic: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while log_ends(bootstrap, [topic])[topic] < RECORDS:
        process.check()
        if time.monotonic() > deadline:
            raise process.failure(f"did not copy {topic} within {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)


def _figures(seen: Copies) -> tuple[str, ...]:
    """The columns of the table, of copies in the order in which they were seen."""
    gaps = [(after - before) / 1e6 for before, after in pairwise(seen.seen_ns)]
    ascending = seen.ascending_ms()
    parts = [percentile(ascending, share) for share in (0.5, 0.99, 0.999, 1.0)]
    return (str(len(seen)), *(f"{value:.1f}" for value in (max(gaps, default=0.0), *parts)))


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--mode", choices=MODES[:2], default="realtime", help="of the mirror")
    parser.add_argument("--rate", type=float, default=1000.0, help="records per second")
    parser.add_argument("--topics", type=int, default=3, help="how many are added")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
