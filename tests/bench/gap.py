"""How long records of one topic wait for what happens to other topics of the flow.

A flow copies a topic at a steady rate. After the warm-up an operator pauses another topic, resumes
it, takes it from the flow, and adds it again; or topics are created on the source, which the flow
finds at its next topic refresh. Printed are the longest gap between two copies of the first topic
and percentiles of their latency, after each step and, for comparison, before the first one. Where
nothing else happens, the ten longest gaps are printed: with short batches, those at their ends.
``--clients`` measures a plain copy by Kafka's clients instead: what brokers and clients take.

    .local/venv/bin/python -m tests.bench.gap
    .local/venv/bin/python -m tests.bench.gap --set replication.source=spark
    .local/venv/bin/python -m tests.bench.gap --created 3 --mode microbatch
    .local/venv/bin/python -m tests.bench.gap --alone 40 --set replication.realtime.batch.seconds=5
    .local/venv/bin/python -m tests.bench.gap --alone 40 --partitions 200 --rate 250 --clients
"""

import argparse
import os
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.topic_log import log_ends
from replication.demo.workload import percentile
from tests.bench.latency import WARM_UP_SECONDS, Copies, PollInterval, copies_seen
from tests.bench.options import add_setting_option, assignments, new_parser, positive
from tests.bench.peers import MM2_JVM, MODES, Contender, Mirror, PlainCopy, Race, running
from tests.bench.program import BROKER_HEAP_MB
from tests.support.cli import ok, run
from tests.support.local import Clusters
from tests.support.running_process import RunningProcess
from tests.support.topics import fill

RECORDS = 100
LONGEST = 10
QUIET_SECONDS = 20.0
BETWEEN_SECONDS = 10.0
SETTLE_SECONDS = 10.0
WAIT_SECONDS = 300.0
POLL_SECONDS = 0.1

OTHER = "gap-0"
ORDERS: dict[str, tuple[str, ...]] = {
    "a topic paused": ("pause", "--topic", OTHER),
    "resumed": ("resume", "--topic", OTHER),
    "removed": ("topics", "--remove", OTHER),
    "added again": ("topics", "--add", OTHER),
}
Steps = Sequence[tuple[str, Callable[[], object]]]


def main() -> int:
    """Prints the table; the exit code is 1 if another topic was not copied."""
    options = _options()
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="gap-") as name,
        two_clusters(Path(name, "brokers"), _brokers()) as clusters,
    ):
        race = Race(
            folder=Path(name, "race"),
            source="s",
            source_bootstrap=clusters[0].bootstrap,
            target_bootstrap=clusters[1].bootstrap,
            topic="gap",
        )
        seen, began, missing = _measure(options, race, clusters)
    who = "clients" if options.clients else options.mode
    title = f"{who}, {options.partitions} partitions, {options.rate:g} records/s"
    table = Table(title=f"{title}; load before: {load:.1f}")
    for heading in ("", "records", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "longest gap ms"):
        table.add_column(heading, justify="right" if heading else "left")
    gaps = LONGEST if options.alone else 1
    starts = [bisect_left(seen.seen_ns, at_ns) for _, at_ns in began]
    for (what, _), start, end in zip(began, starts, [*starts[1:], len(seen)], strict=True):
        # with the last one before it, so that a gap counts where it ends
        table.add_row(what, *_figures(seen[max(0, start - 1) : end], gaps))
    Console().print(table)
    for topic in missing:
        Console(stderr=True).print(f"{topic} was not copied")
    return 1 if missing else 0


def _measure(
    options: argparse.Namespace, race: Race, clusters: Clusters
) -> tuple[Copies, list[tuple[str, int]], list[str]]:
    """The first topic's copies, when each step began, and which other topics were not copied."""
    source, target = clusters
    others = [f"gap-{number}" for number in range(options.created)] or [OTHER]
    fill(source, race.topic, options.partitions, RECORDS)
    if options.created:
        steps: Steps = [
            (f"{one} created", partial(fill, source, one, 1, RECORDS)) for one in others
        ]
    else:
        fill(source, OTHER, 1, RECORDS)
        file = race.folder / "mm2.properties"  # which the contender writes
        orders = {} if options.alone else ORDERS
        steps = [(what, partial(_order, file, *order)) for what, order in orders.items()]
    began = list[tuple[str, int]]()
    with running(contender(options), race) as process, ThreadPoolExecutor(1) as pool:
        _await_copies(process, target.bootstrap, race.remote_topic)
        topics, pace = (race.topic, race.remote_topic), _pace(options, len(steps))
        seen: Future[Copies] = pool.submit(
            copies_seen, source.bootstrap, target.bootstrap, topics, pace
        )
        time.sleep(WARM_UP_SECONDS)
        began.append(("before", time.time_ns()))
        time.sleep(options.alone or QUIET_SECONDS)
        for what, do in steps:
            began.append((what, time.time_ns()))
            do()
            time.sleep(BETWEEN_SECONDS)
        copies = seen.result()
        process.check()
        if options.clients:
            return copies, began, []  # they copy the first topic only, and end when they are killed
        ends = log_ends(target.bootstrap, [f"{race.source}.{topic}" for topic in others])
        process.end()
    return copies, began, [topic for topic, end in ends.items() if end < RECORDS]


def _brokers() -> BrokerSettings:
    """As Kafka's own scripts start them: the ones of the tests pause at each garbage collection."""
    jars = home() / "jars" / "kafka"
    return BrokerSettings(jars=jars, heap_mb=BROKER_HEAP_MB, jvm_options=MM2_JVM)


def contender(options: argparse.Namespace) -> Contender:
    """Who copies."""
    if options.clients:
        settings = {"producer.linger.ms": "0", **assignments(options.set)}
        return PlainCopy(jars=home() / "jars" / "kafka", settings=settings)
    settings = {
        "{source}->{target}.topics": "gap.*" if options.created else f"gap, {OTHER}",
        "refresh.topics.interval.seconds": "2" if options.created else "600",
        **assignments(options.set),
    }
    return Mirror(mode=options.mode, settings=settings)


def _pace(options: argparse.Namespace, steps: int) -> PollInterval:
    seconds = options.alone or QUIET_SECONDS + steps * BETWEEN_SECONDS + SETTLE_SECONDS
    return PollInterval(
        partitions=options.partitions,
        size_bytes=100,
        records_per_second=options.rate,
        seconds=seconds,
    )


def _order(file: Path, command: str, *arguments: str) -> None:
    """Runs a command, which returns when the change is in force."""
    ok(run(command, file, *arguments))


def _await_copies(process: RunningProcess, bootstrap: str, topic: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while log_ends(bootstrap, [topic])[topic] < RECORDS:
        process.check()
        if time.monotonic() > deadline:
            raise process.failure(f"did not copy {topic} within {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)


def _figures(seen: Copies, longest: int) -> tuple[str, ...]:
    """The columns of the table, of copies in the order in which they were seen."""
    gaps = sorted((before - after) / 1e6 for before, after in pairwise(seen.seen_ns))[:longest]
    ascending = seen.ascending_ms()
    parts = [percentile(ascending, share) for share in (0.5, 0.99, 0.999, 1.0)]
    return (
        str(len(seen)),
        *(f"{value:.1f}" for value in parts),
        " ".join(f"{-gap:.0f}" for gap in gaps),
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--mode", choices=MODES[:2], default="realtime", help="of the mirror")
    parser.add_argument("--rate", type=float, default=1000.0, help="records per second")
    parser.add_argument(
        "--created", type=int, default=0, metavar="TOPICS",
        help="how many topics are created, in place of what operators do",
    )  # fmt: skip
    parser.add_argument(
        "--alone", type=positive, metavar="SECONDS", help="instead of all that, nothing happens"
    )
    parser.add_argument("--partitions", type=positive, default=4, help="of the first topic")
    parser.add_argument(
        "--clients", action="store_true", help="with --alone: a copy by Kafka's clients alone"
    )
    add_setting_option(parser)
    options = parser.parse_args()
    if options.clients and not options.alone:
        parser.error("--clients copies one topic only: it needs --alone")
    return options


if __name__ == "__main__":
    sys.exit(main())
