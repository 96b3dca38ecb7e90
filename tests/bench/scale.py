"""What many partitions, topics and flows cost while hardly anything is copied.

Each line is a start of this mirror or of MirrorMaker 2 with an empty state: the seconds until one
record of each partition is copied, the CPU at rest in percent of a core, the memory at most, the
seconds until one more record of each partition is copied, and the administrative requests that both
clusters answer for each refresh of the topics:

    .local/venv/bin/python -m tests.bench.scale
    .local/venv/bin/python -m tests.bench.scale --partitions 10,1000 --topics "" --flows ""
    .local/venv/bin/python -m tests.bench.scale --mode realtime --partitions 100 --only mirror
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from tests.bench.many import ManyTopics, broker_heap_mb, raise_file_limit
from tests.bench.options import (
    add_setting_option,
    add_spark_option,
    assignments,
    new_parser,
    numbers,
    positive,
)
from tests.bench.peers import MODES, TARGET, Contender, Mirror, MirrorMaker2, Race, running
from tests.bench.program import FAILURES, Bench, exit_code
from tests.bench.requests import RequestCounts
from tests.bench.threads import Activity, activities, print_activities, readings
from tests.bench.usage import usage
from tests.support.local import Clusters
from tests.support.program import end_on_signals, new_console
from tests.support.running_process import RunningProcess

EACH: Final = 10
"""Partitions of a topic where partitions are counted, and topics of a flow where flows are."""

INTERNAL_PARTITIONS: Final = 2000
"""Room for those of MM2's internal topics, of all its starts."""

# Nothing but the records and the refresh of the topics is left of what runs at rest.
QUIET: Final[Mapping[str, str]] = {
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "refresh.groups.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """So many topics of so many partitions, copied by each of so many flows."""

    topics: int
    each: int
    flows: int = 1

    @property
    def partitions(self) -> int:
        """Those that the flows copy, taken together."""
        return self.topics * self.each * self.flows

    def __str__(self) -> str:
        return f"flows: {self.flows}, topics: {self.topics}, partitions of each: {self.each}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A contender's figures at one size; None where it failed before.

    Args:
        start_seconds: From the command until a record of each partition is copied.
        cores: CPU seconds per second at rest.
        peak_bytes: Memory of its processes at most.
        round_seconds: Until one more record of each partition is copied.
        requests: Administrative requests at rest, by kind, divided by the refreshes.
        threads: What the busiest threads did at rest.
    """

    name: str
    size: Size
    start_seconds: float | None = None
    cores: float | None = None
    peak_bytes: int | None = None
    round_seconds: float | None = None
    requests: Mapping[str, float] | None = None
    threads: Sequence[Activity] = ()
    failure: str | None = None


def sizes(options: argparse.Namespace) -> list[Size]:
    """The sizes of the three questions, without repetitions, small ones first in each."""
    found = [
        *(
            Size(topics=max(1, number // EACH), each=min(number, EACH))
            for number in options.partitions
        ),
        *(Size(topics=number, each=1) for number in options.topics),
        *(Size(topics=EACH, each=1, flows=number) for number in options.flows),
    ]
    return list(dict.fromkeys(found))


def settings(size: Size, race: Race, refresh_seconds: int) -> dict[str, str]:
    """Lines of the configuration: further flows from the same source under other aliases."""
    lines = {**QUIET, "refresh.topics.interval.seconds": str(refresh_seconds)}
    aliases = _aliases(race.source, size)
    for alias in aliases[1:]:
        lines |= {
            f"{alias}.bootstrap.servers": race.source_bootstrap,
            f"{alias}->{TARGET}.enabled": "true",
            f"{alias}->{TARGET}.topics": race.topic,
        }
    if aliases[1:]:
        lines["clusters"] = ", ".join([*aliases, TARGET])
    return lines


def main() -> int:
    """Prints the table; the exit code is 1 if a contender failed."""
    options = _options()
    asked = sizes(options)
    if not asked:
        sys.exit("nothing to measure: give --partitions, --topics or --flows a number")
    most = INTERNAL_PARTITIONS + max(size.partitions for size in asked)  # of the target
    raise_file_limit(most)
    end_on_signals()
    bench = Bench("scale", options, new_console())
    costs: list[Cost] = []
    try:
        code = exit_code(bench.console, lambda: _measure(options, bench, asked, most, costs))
    finally:
        if costs:
            _print(bench.console, costs, options)
            bench.write([asdict(cost) for cost in costs])
    return code


def _measure(
    options: argparse.Namespace, bench: Bench, asked: Sequence[Size], most: int, costs: list[Cost]
) -> int:
    with bench.brokers(heap_mb=max(1024, broker_heap_mb(most))) as clusters:
        counts = RequestCounts(clusters)
        for at, size in enumerate(asked):
            for name, race, contender in _contenders(options, bench, clusters, at, size):
                bench.console.print(f"{name}: {size}", end=": ")
                began = time.monotonic()
                cost = _cost(options, clusters, counts, size, name, race, contender)
                costs.append(cost)
                verdict = "failed after" if cost.failure else "done in"
                bench.console.print(f"{verdict} {time.monotonic() - began:.0f} s")
    return 1 if any(cost.failure for cost in costs) else 0


def _contenders(
    options: argparse.Namespace, bench: Bench, clusters: Clusters, at: int, size: Size
) -> Iterator[tuple[str, Race, Contender]]:
    """Both, each with a source of its own name."""
    for name in ("mirror", "mm2"):
        if options.only in (None, name):
            race = Race(
                folder=bench.folder / f"{at}-{name}",
                source=f"{name}{at}",
                source_bootstrap=clusters[0].bootstrap,
                target_bootstrap=clusters[1].bootstrap,
                topic=f"{name}-{at}-.*",
            )
            lines = settings(size, race, options.refresh_seconds)
            if name == "mm2":
                yield name, race, MirrorMaker2(jars=home() / "jars" / "mm2", settings=lines)
            else:
                slots = ("--master", f"local[{options.slots}]") if options.slots else ()
                spark = (*slots, *options.spark)
                further = {**lines, **assignments(options.set)}
                yield name, race, Mirror(mode=options.mode, settings=further, spark=spark)


def _cost(
    options: argparse.Namespace,
    clusters: Clusters,
    counts: RequestCounts,
    size: Size,
    name: str,
    race: Race,
    contender: Contender,
) -> Cost:
    topics = [f"{race.topic.removesuffix('.*')}{number}" for number in range(size.topics)]
    many = ManyTopics(clusters, _aliases(race.source, size), topics, size.each)
    many.create()
    many.send(1)
    began = time.monotonic()
    try:
        with running(contender, race) as process:
            many.await_copies(process)
            start_seconds = time.monotonic() - began
            time.sleep(options.warm_up)  # the JVM compiles what it runs often
            cores, requests, threads = _at_rest(process, counts, options)
            many.send(1)
            began = time.monotonic()
            many.await_copies(process)
            round_seconds = time.monotonic() - began
            peak_bytes = usage(process.pid).peak_rss_bytes
    except FAILURES as error:
        return Cost(name=name, size=size, failure=str(error))
    finally:
        many.delete()
    return Cost(
        name=name,
        size=size,
        start_seconds=start_seconds,
        cores=cores,
        peak_bytes=peak_bytes,
        round_seconds=round_seconds,
        requests=requests,
        threads=threads,
    )


def _at_rest(
    process: RunningProcess, counts: RequestCounts, options: argparse.Namespace
) -> tuple[float, dict[str, float], list[Activity]]:
    """CPU seconds per second, requests of each kind for a refresh of the topics, and threads."""
    requests, asked = counts.administration(), time.monotonic()
    used, threads, began = usage(process.pid), readings(process.pid), time.monotonic()
    time.sleep(options.seconds)
    process.check()
    seconds = time.monotonic() - began
    cores = (usage(process.pid) - used).cpu_seconds / seconds
    busiest = activities(threads, readings(process.pid), seconds)
    requests = counts.administration() - requests
    refreshes = (time.monotonic() - asked) / options.refresh_seconds
    return cores, {kind: count / refreshes for kind, count in requests.most_common()}, busiest


def _aliases(source: str, size: Size) -> list[str]:
    return [source, *(f"{source}x{number}" for number in range(1, size.flows))]


def _print(console: Console, costs: Sequence[Cost], options: argparse.Namespace) -> None:
    title = f"At rest for {options.seconds} s; a refresh every {options.refresh_seconds} s"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("flows", "topics", "partitions", "start s", "% of a core", "peak MB"):
        table.add_column(heading, justify="right")
    for heading in ("one more record s", "requests a refresh"):
        table.add_column(heading, justify="right")
    for cost in costs:
        requests = None if cost.requests is None else sum(cost.requests.values())
        table.add_row(
            cost.name,
            f"{cost.size.flows:,}",
            f"{cost.size.topics * cost.size.flows:,}",
            f"{cost.size.partitions:,}",
            _text(cost.start_seconds),
            _text(cost.cores, 100),
            _text(cost.peak_bytes, 1e-6, digits=0),
            _text(cost.round_seconds),
            _text(requests),
        )
    console.print(table)
    for cost in costs:
        if options.threads and cost.threads:
            print_activities(console, f"{cost.name}, {cost.size}", cost.threads)
        if cost.failure:
            console.print(f"{cost.name}, {cost.size}: {cost.failure}", markup=False)


def _text(value: float | None, factor: float = 1, *, digits: int = 1) -> str:
    return "-" if value is None else f"{value * factor:,.{digits}f}"


def _counts(text: str) -> list[int]:
    return numbers(text) if text else []


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--partitions", type=_counts, default="10,100,1000", help="ten in a topic")
    parser.add_argument("--topics", type=_counts, default="10,100,1000", help="of one partition")
    parser.add_argument("--flows", type=_counts, default="1,5,20", help="each copies ten topics")
    parser.add_argument("--seconds", type=positive, default=60, help="each is measured at rest")
    parser.add_argument("--warm-up", type=positive, default=30, help="seconds before that")
    parser.add_argument("--refresh-seconds", type=positive, default=10, help="of the topics")
    parser.add_argument("--mode", choices=MODES[:2], default="microbatch", help="of the mirror")
    parser.add_argument("--slots", type=int, default=0, help="task slots; 0 as many as it needs")
    parser.add_argument("--only", choices=("mirror", "mm2"), help="run only this one")
    parser.add_argument("--threads", action="store_true", help="also what the threads do at rest")
    add_setting_option(parser)
    add_spark_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
