"""The measurements, as tables for the terminal and as a JSON file."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.latency import Latency
from tests.bench.throughput import Throughput
from tests.support.local import REPOSITORY

PEER = "mm2"
MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one contender in one round. A drain has no latency, a failure has neither."""

    name: str
    round: int
    throughput: Throughput | None = None
    latency: Latency | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``measure`` returns None for a result without that figure."""

    heading: str
    measure: Callable[[Result], float | None]
    digits: int = 1


def throughput_columns(size_bytes: int) -> tuple[Column, ...]:
    """The figures of copying a full topic of records of *size_bytes*."""

    def column(heading: str, figure: Callable[[Throughput], float], digits: int = 1) -> Column:
        return Column(
            heading, lambda result: figure(result.throughput) if result.throughput else None, digits
        )

    return (
        column("MB/s", lambda run: run.records_per_second * size_bytes / MEGA),
        column("records/s", lambda run: run.records_per_second, 0),
        column("CPU µs/record", lambda run: run.cpu_us_per_record, 2),
        column("MB per CPU s", lambda run: run.records_per_cpu_second * size_bytes / MEGA),
        column("CPU cores", lambda run: run.used.cpu_seconds / run.seconds, 2),
        column("GC % of CPU", lambda run: _share(run.used.gc_seconds, run.used.cpu_seconds)),
        column("JIT % of CPU", lambda run: _share(run.used.jit_seconds, run.used.cpu_seconds)),
        column("peak RSS MB", lambda run: run.used.peak_rss_bytes / MEGA, 0),
        column("start s", lambda run: run.start_seconds),
    )


def latency_columns() -> tuple[Column, ...]:
    """The figures at a low, steady rate."""

    def column(heading: str, figure: Callable[[Latency], float], digits: int = 2) -> Column:
        return Column(
            heading, lambda result: figure(result.latency) if result.latency else None, digits
        )

    return (
        column("p50 ms", lambda run: run.p50_ms),
        column("p99 ms", lambda run: run.p99_ms),
        column("p99.9 ms", lambda run: run.p999_ms),
        column("max ms", lambda run: run.max_ms),
        column("CPU cores", lambda run: run.used.cpu_seconds / run.wall_seconds),
        column("records", lambda run: run.records, 0),
        column("lost", lambda run: run.lost, 0),
    )


def print_tables(
    console: Console, results: Sequence[Result], titles: tuple[str, str], size_bytes: int
) -> None:
    """Throughput and latency, a row for each result, and each mode's ratio to MirrorMaker 2."""
    for title, columns in zip(
        titles, (throughput_columns(size_bytes), latency_columns()), strict=True
    ):
        rows = [
            result
            for result in results
            if any(column.measure(result) is not None for column in columns)
        ]
        if rows:
            console.print(_table(title, columns, rows))
    for result in results:
        if result.failure:
            console.print(f"{result.name}, round {result.round}: {result.failure}", markup=False)


def _table(title: str, columns: Sequence[Column], rows: Sequence[Result]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("contender")
    for column in columns:
        table.add_column(column.heading, justify="right")
    rounds = max(result.round for result in rows)
    for result in rows:
        name = f"{result.name} ({result.round})" if rounds > 1 else result.name
        table.add_row(name, *(_text(column.measure(result), column.digits) for column in columns))
    table.add_section()
    for name, ratios in _ratios(columns, rows):
        table.add_row(f"{name} / {PEER}", *(_text(ratio, 2) for ratio in ratios))
    return table


def _ratios(
    columns: Sequence[Column], rows: Sequence[Result]
) -> Iterator[tuple[str, list[float | None]]]:
    """The ratios of the medians over all rounds."""

    def median(name: str, column: Column) -> float | None:
        figures = [column.measure(result) for result in rows if result.name == name]
        known = [figure for figure in figures if figure is not None]
        return statistics.median(known) if known else None

    names = dict.fromkeys(result.name for result in rows)
    if PEER not in names:
        return
    for name in names:
        if name != PEER:
            pairs = [(median(name, column), median(PEER, column)) for column in columns]
            yield (
                name,
                [ours / theirs if ours is not None and theirs else None for ours, theirs in pairs],
            )


def write_json(file: Path, results: Sequence[Result], settings: dict[str, object]) -> None:
    """Writes all measurements, with the options and the machine."""
    document = {
        "settings": settings,
        "machine": machine(),
        "results": [asdict(result) for result in results],
    }
    file.write_text(json.dumps(document, indent=2, default=str) + "\n")


def machine() -> dict[str, object]:
    """What the figures depend on, apart from the options."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }


def _share(part: float, whole: float) -> float:
    return part / whole * 100 if whole else float("nan")


def _text(figure: float | None, digits: int) -> str:
    return "-" if figure is None else f"{figure:,.{digits}f}"
