"""The measurements of the race, as tables for the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.bench.latency import Latency
from tests.bench.load import Load
from tests.bench.program import ratio, spread
from tests.bench.throughput import Throughput

PEER = "mm2"
ALONE = "no contender"
MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one contender in one round. A drain has no latencies, a failure may have none.

    ``latencies`` holds one for each rate.
    """

    name: str
    round: int
    throughput: Throughput | None = None
    latencies: tuple[Latency, ...] = ()
    failure: str | None = None

    def latency(self, rate: float) -> Latency | None:
        """The latency at *rate*."""
        return next((found for found in self.latencies if found.rate == rate), None)


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of a table. ``measure`` returns None for a result without that figure."""

    heading: str
    measure: Callable[[Result], float | None]
    digits: int = 1

    def of(self, name: str, results: Sequence[Result]) -> list[float]:
        """The figure of each round of the contender *name*."""
        figures = [self.measure(result) for result in results if result.name == name]
        return [figure for figure in figures if figure is not None]


def throughput_figures(size_bytes: int) -> tuple[Figure, ...]:
    """The figures of copying a full topic of records of *size_bytes*."""

    def figure(heading: str, value: Callable[[Throughput], float], digits: int = 1) -> Figure:
        return Figure(
            heading, lambda result: value(result.throughput) if result.throughput else None, digits
        )

    return (
        figure("MB/s", lambda run: run.records_per_second * size_bytes / MEGA),
        figure("records/s", lambda run: run.records_per_second, 0),
        figure("CPU µs/record", lambda run: run.cpu_us_per_record, 2),
        figure("MB per CPU s", lambda run: run.records_per_cpu_second * size_bytes / MEGA),
        figure("CPU cores", lambda run: run.used.cpu_seconds / run.seconds, 2),
        figure("GC % of CPU", lambda run: _share(run.used.gc_seconds, run.used.cpu_seconds)),
        figure("JIT % of CPU", lambda run: _share(run.used.jit_seconds, run.used.cpu_seconds)),
        figure("peak RSS MB", lambda run: run.used.peak_rss_bytes / MEGA, 0),
        figure("start s", lambda run: run.start_seconds),
    )


def latency_figures(rate: float) -> tuple[Figure, ...]:
    """The figures at a steady *rate*."""

    def figure(heading: str, value: Callable[[Latency], float], digits: int = 2) -> Figure:
        def measure(result: Result) -> float | None:
            found = result.latency(rate)
            return value(found) if found else None

        return Figure(heading, measure, digits)

    return (
        figure("p50 ms", lambda run: run.p50_ms),
        figure("p90 ms", lambda run: run.p90_ms),
        figure("p99 ms", lambda run: run.p99_ms),
        figure("p99.9 ms", lambda run: run.p999_ms),
        figure("max ms", lambda run: run.max_ms),
        figure("CPU cores", lambda run: run.used.cpu_seconds / run.wall_seconds),
        figure("produced/s", lambda run: run.produced_per_second, 0),
        figure("records", lambda run: run.records, 0),
        figure("lost", lambda run: run.lost, 0),
    )


def print_tables(
    console: Console, results: Sequence[Result], load: Load, rates: Sequence[float], seconds: float
) -> None:
    """Throughput, and latency at each rate: medians over the rounds, and their spread.

    Failures follow.
    """
    topic = f"{load.partitions} partitions, {load.size_bytes:,}-byte values"
    tables = [
        (
            f"Throughput: {load.records:,} records, {topic}; after the first third",
            throughput_figures(load.size_bytes),
        )
    ]
    tables += [
        (
            f"Latency from produced to visible: {rate:,g}/s for {seconds:g} s, {topic}",
            latency_figures(rate),
        )
        for rate in rates
    ]
    for title, figures in tables:
        measured = [
            result
            for result in results
            if any(figure.measure(result) is not None for figure in figures)
        ]
        if measured:
            rounds = max(result.round for result in measured)
            several = f"; median of {rounds} rounds (least to greatest)" if rounds > 1 else ""
            console.print(f"{title}{several}", soft_wrap=True)
            console.print(_table(figures, measured))
    for result in results:
        if result.failure:
            console.print(f"{result.name}, round {result.round}: {result.failure}", markup=False)


def _table(figures: Sequence[Figure], results: Sequence[Result]) -> Table:
    names = list(dict.fromkeys(result.name for result in results))
    names.sort(key=lambda name: name == PEER)
    compared = [name for name in names if name not in {PEER, ALONE}] if PEER in names else []
    table = Table()
    table.add_column("")
    for heading in (*names, *(f"{name} / {PEER}" for name in compared)):
        table.add_column(heading, justify="right")
    for figure in figures:
        found = {name: figure.of(name, results) for name in names}
        table.add_row(
            figure.heading,
            *(spread(found[name], figure.digits) for name in names),
            *(ratio(found[name], found[PEER]) for name in compared),
        )
    return table


def _share(part: float, whole: float) -> float:
    return part / whole * 100 if whole else float("nan")
