"""What the Delta tables cost after a year of three kinds of topics, and after a month of commits.

    .local/venv/bin/python -m tests.bench.growth                          # some minutes
    .local/venv/bin/python -m tests.bench.growth --only year --years 3
    .local/venv/bin/python -m tests.bench.growth --only year --share 0.02  # of the partitions
    .local/venv/bin/python -m tests.bench.growth --only month --days 7

Each line of the year is a process of its own, so that its memory is its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median

from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from replication.model import TopicPartition
from replication.offsets.runs import RESOLUTION, FinishedRuns, OffsetRun
from replication.spark.counting import frame_of
from replication.state.delta import DeltaReader
from replication.state.offset_table import OffsetTable, due_after
from replication.state.table_reader import COMPACTED, OFFSET_RUNS
from replication.state.tables import Tables
from tests.bench.aged_table import FLOW, IDS, INTERVAL_SECONDS, RUNS, month, seconds, session
from tests.bench.usage import usage
from tests.support.frames import frame

YEAR_SECONDS = 365 * 86_400
LAG_MAX = 100  # the default of offset.lag.max
RUN_COLUMNS = "src_from bigint, src_until bigint, tgt_from bigint, count bigint"
WIDTH_OF_A_FILE = 140


@dataclass(frozen=True, slots=True)
class Population:
    """Partitions that are alike.

    Args:
        partitions: Their number.
        rate: Records a second in each.
        offsets: Source offsets for 100 records.
    """

    partitions: int
    rate: int
    offsets: int

    @property
    def rows_per_write(self) -> int:
        """Rows that a partition adds in one interval between two writes."""
        return 1 if self.offsets == LAG_MAX else self.rate * INTERVAL_SECONDS // LAG_MAX

    def share(self, share: float) -> "Population":
        """The same with so many times the partitions, and at least one."""
        return replace(self, partitions=max(1, round(share * self.partitions)))

    def kept(self, years: float) -> list[OffsetRun]:
        """The runs of a partition after *years*: as many as the rule may leave at most."""
        records = int(self.rate * YEAR_SECONDS * years)
        if self.offsets == LAG_MAX:
            return [self.run(0, records)]
        runs, after = list[OffsetRun](), 0
        while after < records:
            count = min(records - after, max(LAG_MAX, after // (2 * RESOLUTION)))
            runs.append(self.run(records - after - count, count))
            after += count
        return runs[::-1]

    def written(self, end: int, number: int) -> list[OffsetRun]:
        """The runs that write *number* after target offset *end* adds for a partition."""
        records = self.rate * INTERVAL_SECONDS // self.rows_per_write
        first = end + number * records * self.rows_per_write
        return [self.run(first + at * records, records) for at in range(self.rows_per_write)]

    def run(self, tgt_from: int, count: int) -> OffsetRun:
        """The run of *count* records from *tgt_from* on."""
        start, until = (at * self.offsets // 100 for at in (tgt_from, tgt_from + count))
        return OffsetRun(start, until, tgt_from, count)


POPULATIONS: Mapping[str, Population] = {
    "1000 dense": Population(1000, rate=100, offsets=100),
    "50 transactional": Population(50, rate=1000, offsets=101),  # 10 batches of 100 a second
    "500 compacted": Population(500, rate=100, offsets=200),
}


def main() -> int:
    """Prints the tables."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="growth-") as name:
        folder = Path(name)
        if options.population:
            population = POPULATIONS[options.population].share(options.share)
            figures = year(folder, population, options.years)
            print(json.dumps(figures))  # noqa: T201 - for the parent
            return 0
        console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
        if options.only != "month":
            title = f"The offset map after {options.years:g} year(s), before its next compaction"
            lines = {
                f"{population.share(options.share).partitions} {name.split()[-1]}": _child(
                    name, options.years, options.share
                )
                for name, population in POPULATIONS.items()
            }
            _print(console, title, lines)
        if options.only != "year":
            title = f"The folder of the offset map after {options.days} days"
            _print(console, title, month(folder, options.days))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["year", "month"])
    parser.add_argument("--years", type=float, default=1.0)
    parser.add_argument("--share", type=float, default=1.0, help="of each kind's partitions")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--population", choices=[*POPULATIONS], help=argparse.SUPPRESS)
    return parser.parse_args()


def _child(population: str, years: float, share: float) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.bench.growth", "--population", population]
    run = subprocess.run(
        [*command, "--years", str(years), "--share", str(share)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return figures


def _print(console: Console, title: str, lines: Mapping[str, Mapping[str, str]]) -> None:
    table = Table(title=title)
    for heading in ("", *next(iter(lines.values()))):
        table.add_column(heading, justify="right" if heading else "left")
    for name, figures in lines.items():
        table.add_row(name, *figures.values())
    console.print(table)


def year(folder: Path, population: Population, years: float) -> dict[str, str]:
    """What the offset map of *population* costs, just before its next compaction is due."""
    kept = population.kept(years)
    end = kept[-1].tgt_until
    rows = len(kept) * population.partitions
    per_write = population.rows_per_write * population.partitions
    writes = ceil(due_after(rows, is_quick=True) / per_write) - RUNS
    with session() as spark:
        tables = Tables(spark, folder.as_uri())
        _write(tables, population, kept, first_batch=COMPACTED)
        grown = [run for number in range(writes) for run in population.written(end, number)]
        _write(tables, population, grown, first_batch=0)

        table, reader = OffsetTable(tables, FLOW), DeltaReader(tables.root).offsets(FLOW)
        started = seconds(lambda: table.resume(reader.progress()))
        newest = population.written(end, writes - 2)[0].src_from  # groups lag by a minute
        least = {TopicPartition("orders", at): newest for at in range(population.partitions)}
        loaded = seconds(partial(reader.maps, least))
        maps = reader.maps(least)
        translated = seconds(lambda: [maps[tp].offsets.translate(newest) for tp in least])
        peak_mb = _peak_mb()
        stored_mb = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6
        appends = [
            seconds(partial(table.append, _finished(population, end, writes + at)))
            for at in range(RUNS - 1)
        ]
        last = _finished(population, end, writes + RUNS - 1)
        compacting = seconds(partial(table.append, last))
        left = frame(tables, OFFSET_RUNS, FLOW).agg(F.count("*")).collect()[0][0]
        return {
            "rows": f"{rows + per_write * writes:,}",
            "MB": f"{stored_mb:.1f}",
            "start s": f"{started:.1f}",
            "load s": f"{loaded:.2f}",
            "translate µs": f"{1e6 * translated / len(least):.1f}",
            "driver MB": f"{peak_mb:,.0f}",
            "rows of an append": f"{per_write:,}",
            "append s": f"{median(appends):.2f}",
            "compact s": f"{compacting - median(appends):.1f}",
            "rows left": f"{left:,}",
            "driver MB then": f"{_peak_mb():,.0f}",
        }


def _write(
    tables: Tables, population: Population, runs: list[OffsetRun], *, first_batch: int
) -> None:
    """Writes *runs* of each partition in one commit."""
    rows = [
        {
            "src_from": run.src_from,
            "src_until": run.src_until,
            "tgt_from": run.tgt_from,
            "count": run.count,
        }
        for run in runs
    ]
    partitions = tables.spark.range(population.partitions)
    frame = frame_of(tables.spark, rows, RUN_COLUMNS).crossJoin(partitions)
    whole = frame.selectExpr(
        f"'{FLOW}' AS flow", "1L AS generation", "'orders' AS topic",
        "CAST(id AS INT) AS `partition`", "'id' AS topic_id", "src_from", "src_until", "tgt_from",
        "`count`", f"CAST({first_batch} AS BIGINT) AS first_batch", "0L AS last_batch",
        "current_timestamp() AS written_at",
    )  # fmt: skip
    writer = whole.coalesce(1).write.format("delta").mode("append").partitionBy("flow")
    writer.save(tables.path(OFFSET_RUNS))


def _finished(population: Population, end: int, number: int) -> FinishedRuns:
    runs = population.written(end, number)
    partitions = (TopicPartition("orders", at) for at in range(population.partitions))
    return FinishedRuns(1, dict.fromkeys(partitions, runs), IDS, (number, number))


def _peak_mb() -> float:
    """Of Python and the JVM together."""
    return usage(os.getpid()).peak_rss_bytes / 1e6


if __name__ == "__main__":
    sys.exit(main())
