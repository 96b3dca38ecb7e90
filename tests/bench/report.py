"""What was measured, as a table to read and as JSON to keep."""

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
    """One contender's in one round; a drain has no latency, a failure neither of both."""

    name: str
    round: int
    throughput: Throughput | None = None
    latency: Latency | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the table. ``measure`` is None where a result lacks it."""

    heading: str
    measure: Callable[[Result], float | None]
    digits: int = 1


def throughput_columns(size_bytes: int) -> tuple[Column, ...]:
    """The figures of copying a full topic of records of *size_bytes*."""

    def column(heading: str, figure: Callable[[Throughput], float], digits: int = 1) -> Column:
        return Column(heading, lambda it: figure(it.throughput) if it.throughput else None, digits)

    return (
        column("MB/s", lambda it: it.records_per_second * size_bytes / MEGA),
        column("records/s", lambda it: it.records_per_second, 0),
        column("CPU µs/record", lambda it: it.cpu_us_per_record, 2),
        column("MB per CPU s", lambda it: it.records_per_cpu_second * size_bytes / MEGA),
        column("CPU cores", lambda it: it.used.cpu_seconds / it.seconds, 2),
        column("GC % of CPU", lambda it: _share(it.used.gc_seconds, it.used.cpu_seconds)),
        column("JIT % of CPU", lambda it: _share(it.used.jit_seconds, it.used.cpu_seconds)),
        column("peak RSS MB", lambda it: it.used.peak_rss_bytes / MEGA, 0),
        column("start s", lambda it: it.start_seconds),
    )


def latency_columns() -> tuple[Column, ...]:
    """The figures at a low, steady rate."""

    def column(heading: str, figure: Callable[[Latency], float], digits: int = 2) -> Column:
        return Column(heading, lambda it: figure(it.latency) if it.latency else None, digits)

    return (
        column("p50 ms", lambda it: it.p50_ms),
        column("p99 ms", lambda it: it.p99_ms),
        column("p99.9 ms", lambda it: it.p999_ms),
        column("max ms", lambda it: it.max_ms),
        column("CPU cores", lambda it: it.used.cpu_seconds / it.wall_seconds),
        column("records", lambda it: it.records, 0),
        column("lost", lambda it: it.lost, 0),
    )


def print_tables(
    console: Console, results: Sequence[Result], titles: tuple[str, str], size_bytes: int
) -> None:
    """Throughput and latency, a row for each result, and each mode's ratio to MirrorMaker 2."""
    for title, columns in zip(
        titles, (throughput_columns(size_bytes), latency_columns()), strict=True
    ):
        rows = [it for it in results if any(column.measure(it) is not None for column in columns)]
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
    rounds = max(it.round for it in rows)
    for it in rows:
        name = f"{it.name} ({it.round})" if rounds > 1 else it.name
        table.add_row(name, *(_text(column.measure(it), column.digits) for column in columns))
    table.add_section()
    for name, ratios in _ratios(columns, rows):
        table.add_row(f"{name} / {PEER}", *(_text(ratio, 2) for ratio in ratios))
    return table


def _ratios(
    columns: Sequence[Column], rows: Sequence[Result]
) -> Iterator[tuple[str, list[float | None]]]:
    """Of the medians over the rounds."""

    def median(name: str, column: Column) -> float | None:
        figures = [column.measure(it) for it in rows if it.name == name]
        known = [figure for figure in figures if figure is not None]
        return statistics.median(known) if known else None

    names = dict.fromkeys(it.name for it in rows)
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
    """All that was measured, with what and where."""
    document = {
        "settings": settings,
        "machine": machine(),
        "results": [asdict(it) for it in results],
    }
    file.write_text(json.dumps(document, indent=2, default=str) + "\n")


def machine() -> dict[str, object]:
    """What the figures depend on besides the code."""
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
