"""What a drain of an hour's records costs beside a contender that runs for that hour.

The records are produced at once, with timestamps of the last hour; then one drain copies them, from
its start to its exit. The standing contenders are measured for some minutes while records come at
the same rate, and their CPU seconds are scaled to the hour: nobody waits for it.

    .local/venv/bin/python -m tests.bench.drain
    .local/venv/bin/python -m tests.bench.drain --rate 5000 --standing mm2,realtime,microbatch
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.table import Table

from replication.config.home import home
from tests.bench.latency import WARM_UP_SECONDS
from tests.bench.load import Load
from tests.bench.options import add_topic_options, chosen_from, new_parser, positive
from tests.bench.peers import MODES, Contender, Mirror, MirrorMaker2
from tests.bench.program import FAILURES, Bench, exit_code
from tests.bench.race import Course
from tests.bench.report import MEGA, PEER
from tests.support.program import end_on_signals, new_console

STANDING: Final = (PEER, *(mode for mode in MODES if mode != "drain"))
DRAIN: Final = "drain"
GIGA: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an hour's records cost.

    Args:
        name: Of the contender.
        wall_seconds: How long it runs for them.
        cpu_seconds: Of its processes.
        peak_bytes: Their memory at most.
        measured_seconds: How much of ``wall_seconds`` was measured; the rest is scaled.
    """

    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    measured_seconds: float


def scaled(seconds: float, wall_seconds: float, cpu_seconds: float) -> float:
    """The CPU seconds of *wall_seconds*, after *cpu_seconds* were measured in *seconds*."""
    return cpu_seconds * wall_seconds / seconds


def main() -> int:
    """Prints the table; the exit code is 1 if a contender failed."""
    options = _options()
    end_on_signals()
    bench = Bench("drain", options, new_console())
    costs: list[Cost] = []
    try:
        code = exit_code(bench.console, lambda: _measure(options, bench, costs))
    finally:
        if costs:
            bench.console.print(_table(costs, _load(options)))
            bench.write([asdict(cost) for cost in costs])
    return code


def _measure(options: argparse.Namespace, bench: Bench, costs: list[Cost]) -> int:
    failed = 0
    with bench.brokers() as clusters:
        course = Course(bench.folder, clusters, _load(options))
        bench.console.print(f"filling: {_load(options).records:,} records")
        course.fill()
        course.warm_up()
        for name in (DRAIN, *options.standing):
            bench.console.print(name, end=": ")
            began = time.monotonic()
            try:
                costs.append(_cost(options, course, name))
            except FAILURES as error:
                bench.console.print(str(error), markup=False)
                failed = 1
            bench.console.print(f"{time.monotonic() - began:.0f} s")
    return failed


def _cost(options: argparse.Namespace, course: Course, name: str) -> Cost:
    if name == DRAIN:
        seconds, used = course.whole(Mirror(mode="drain", settings={}), 1)
        return Cost(
            name=name,
            wall_seconds=seconds,
            cpu_seconds=used.cpu_seconds,
            peak_bytes=used.peak_rss_bytes,
            measured_seconds=seconds,
        )
    [latency] = course.latencies(_standing(name), 1, [options.rate], options.seconds)
    return Cost(
        name=name,
        wall_seconds=options.span,
        cpu_seconds=scaled(latency.wall_seconds, options.span, latency.used.cpu_seconds),
        peak_bytes=latency.used.peak_rss_bytes,
        measured_seconds=latency.wall_seconds,
    )


def _standing(name: str) -> Contender:
    if name == PEER:
        return MirrorMaker2(jars=home() / "jars" / "mm2", settings={})
    return Mirror(mode=next(mode for mode in MODES if mode == name), settings={})


def _load(options: argparse.Namespace) -> Load:
    return Load(
        partitions=options.partitions,
        records=options.rate * options.span,
        size_bytes=options.size,
        span_seconds=options.span,
    )


def _table(costs: Sequence[Cost], load: Load) -> Table:
    gigabytes = load.records * load.size_bytes / GIGA
    table = Table(
        title=f"{load.records:,} records of {load.size_bytes:,} bytes, {gigabytes:.2f} GB, "
        f"of {load.span_seconds:,g} s",
        title_justify="left",
    )
    headings = ("", "runs for s", "of them measured", "CPU s", "CPU s per GB", "peak RSS MB")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    for cost in costs:
        table.add_row(
            cost.name,
            f"{cost.wall_seconds:,.1f}",
            f"{cost.measured_seconds:,.1f}",
            f"{cost.cpu_seconds:,.1f}",
            f"{cost.cpu_seconds / gigabytes:,.1f}",
            f"{cost.peak_bytes / MEGA:,.0f}",
        )
    return table


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--rate", type=positive, default=1000, help="records per second")
    parser.add_argument("--span", type=positive, default=3600, help="seconds of records")
    add_topic_options(parser)
    parser.add_argument(
        "--seconds", type=positive, default=240,
        help=f"each standing contender is measured, and {WARM_UP_SECONDS} s more",
    )  # fmt: skip
    parser.add_argument(
        "--standing", type=chosen_from(STANDING), default=PEER, metavar="NAME,...",
        help=f"contenders that run all the time: {', '.join(STANDING)}",
    )  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
