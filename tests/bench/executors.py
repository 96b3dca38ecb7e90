"""Throughput of the mirror on Spark's standalone master, with one executor and with several.

All executors together have the same task slots in each case, and all run on this machine, so the
figures show what crossing processes costs, and whether the work is spread; more cores come only
with more machines. The first line is the same race in one process, without executors.

    .local/venv/bin/python -m tests.bench.executors
    .local/venv/bin/python -m tests.bench.executors --executors 1,2,4 --mode microbatch --rounds 3
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.table import Table

from tests.bench.load import Load
from tests.bench.options import add_topic_options, new_parser, numbers, positive
from tests.bench.peers import MODES, Mirror
from tests.bench.program import FAILURES, Bench, exit_code, spread
from tests.bench.race import Course
from tests.bench.report import MEGA
from tests.bench.throughput import Throughput
from tests.support.program import end_on_signals, new_console
from tests.support.standalone import WorkerSize, standalone

SPARE_SLOTS: Final = 2
"""A Real-Time flow needs a slot for each partition, and two for what runs beside it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A race; with 0 executors it is a driver that does the work itself."""

    executors: int
    round: int
    throughput: Throughput | None
    failure: str | None = None


def cores_each(slots: int, executors: int) -> int:
    """Task slots of each executor, so that together they have at least *slots*."""
    return -(-slots // executors)


def main() -> int:
    """Prints the table; the exit code is 1 if a race failed."""
    options = _options()
    end_on_signals()
    bench = Bench("executors", options, new_console())
    measured: list[Measured] = []
    try:
        code = exit_code(bench.console, lambda: _measure(options, bench, measured))
    finally:
        if measured:
            bench.console.print(_table(measured, options))
            for one in measured:
                if one.failure:
                    bench.console.print(f"executors: {one.executors}: {one.failure}", markup=False)
            bench.write([asdict(one) for one in measured])
    return code


def _measure(options: argparse.Namespace, bench: Bench, measured: list[Measured]) -> int:
    load = Load(partitions=options.partitions, records=options.records, size_bytes=options.size)
    with bench.brokers() as clusters:
        course = Course(bench.folder, clusters, load)
        bench.console.print(f"filling: {load.records:,} records of {load.size_bytes:,} bytes")
        course.fill()
        course.warm_up()
        cases = [0, *options.executors]
        for number in range(1, options.rounds + 1):
            for executors in cases if number % 2 else reversed(cases):
                alias = number * (max(cases) + 1) + executors
                bench.console.print(f"executors: {executors}, round {number}")
                try:
                    run = _throughput(options, bench, course, executors, alias)
                except FAILURES as error:
                    measured.append(Measured(executors, number, None, str(error)))
                else:
                    measured.append(Measured(executors, number, run))
    return 1 if any(one.failure for one in measured) else 0


def _throughput(
    options: argparse.Namespace, bench: Bench, course: Course, executors: int, alias: int
) -> Throughput:
    if not executors:
        return course.throughput(Mirror(mode=options.mode, settings={}), alias)
    slots = options.partitions + SPARE_SLOTS
    size = WorkerSize(cores=cores_each(slots, executors), memory="2g")
    # The JVM's default compiler, and the collector that conf/deploy gives to executors.
    compiler = "-XX:+TieredCompilation -XX:+UseParallelGC"
    with standalone(bench.folder / f"spark-{alias}", workers=executors, size=size) as cluster:
        arguments = tuple(
            cluster.job_arguments(executors * size.cores, compiler=compiler, memory="1g")
        )
        mirror = Mirror(mode=options.mode, settings={}, spark=arguments)

        def others() -> list[int]:
            return [pid for worker in cluster.workers for pid in worker.executors()]

        return course.throughput(mirror, alias, others)


def _table(measured: Sequence[Measured], options: argparse.Namespace) -> Table:
    title = f"{options.mode}: {options.records:,} records of {options.size:,} bytes"
    table = Table(title=f"{title}, {options.partitions} partitions", title_justify="left")
    for heading in ("executors", "MB/s", "MB per CPU s", "CPU cores", "start s"):
        table.add_column(heading, justify="right")
    for executors in dict.fromkeys(sorted(one.executors for one in measured)):
        runs = [one.throughput for one in measured if one.executors == executors and one.throughput]
        megabytes = options.size / MEGA
        table.add_row(
            str(executors) if executors else "none: local",
            spread([run.records_per_second * megabytes for run in runs]),
            spread([run.records_per_cpu_second * megabytes for run in runs]),
            spread([run.used.cpu_seconds / run.seconds for run in runs], 2),
            spread([run.start_seconds for run in runs]),
        )
    return table


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--executors", type=numbers, default="1,2", help="one in each worker")
    parser.add_argument("--records", type=positive, default=3_000_000, help="in the topic")
    add_topic_options(parser)
    parser.add_argument("--rounds", type=positive, default=1, help="of all cases, in turn")
    parser.add_argument("--mode", choices=MODES[:2], default="realtime", help="of the mirror")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
