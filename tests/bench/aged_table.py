"""A table of one partition, made as old as a month, before and after its maintenance."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from replication.config.group_settings import StateConfig
from replication.model import Flow, TopicPartition
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.session import local_session, spark_jars
from replication.state.delta import DeltaReader
from replication.state.maintenance import Maintenance
from replication.state.offset_table import OffsetTable
from replication.state.table_reader import OFFSET_RUNS
from replication.state.tables import Tables, now

FLOW, PARTITION, IDS = Flow("A", "B"), TopicPartition("orders", 0), {"orders": "id"}
DAY_SECONDS = 86_400
INTERVAL_SECONDS = 30
FORMER_INTERVAL_SECONDS = 10
COMMITS_BEFORE = 10  # then delta-rs has written its first checkpoint
RUNS = 5


def month(folder: Path, days: int) -> dict[str, dict[str, str]]:
    """What appends and reads cost when *days* of commits were kept, and after maintenance."""
    lines = {}
    with session() as spark:
        for interval in (FORMER_INTERVAL_SECONDS, INTERVAL_SECONDS):
            tables = _tables(spark, folder / f"{interval}")
            for number in range(COMMITS_BEFORE):
                OffsetTable(tables, FLOW).append(_run(number))
            age(folder / f"{interval}" / OFFSET_RUNS, days, interval)
            lines[f"every {interval} s, nothing removed"] = _figures(spark, folder / f"{interval}")
        state = folder / f"{INTERVAL_SECONDS}"
        tables = _tables(spark, state)
        table = OffsetTable(tables, FLOW)
        retention = dict.fromkeys(("events", "checkpoints", "leases"), 30)
        config = StateConfig(write_interval_seconds=30, retention_days=retention)
        maintained = seconds(partial(Maintenance(tables, FLOW, config).run, now()))
        # within ten commits Delta writes a checkpoint and removes the old log
        longest = max(seconds(partial(table.append, _run(100 + at))) for at in range(10))
        lines[f"every {INTERVAL_SECONDS} s, maintained"] = _figures(spark, state) | {
            "maintenance s": f"{maintained:.1f}",
            "longest append s": f"{longest:.1f}",
        }
    return lines


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session with the settings of a job, for the block."""
    spark = local_session(spark_jars(), 2, "growth")
    try:
        yield spark
    finally:
        spark.stop()


def seconds(action: Callable[[], object]) -> float:
    """How long *action* takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def age(table: Path, days: int, interval: int) -> None:
    """Makes a young *table* as old as *days* with a commit every *interval* seconds.

    Delta's state is that of the last commit, which a checkpoint holds. Older commits and files are
    only listed and removed, so they are links to one file for each day and kind.
    """
    log = table / "_delta_log"
    last, commits = COMMITS_BEFORE - 1, days * DAY_SECONDS // interval
    newest = [file for file in log.iterdir() if f"{last:020}" in file.name]
    logged = [file for file in newest if "checkpoint" not in file.name]
    data = next(table.glob("flow=*/part-*"))
    files = (*logged, *(file for file in data.parent.iterdir() if data.name in file.name))
    pointer = json.loads((log / "_last_checkpoint").read_text())
    for day in range(days):
        originals = [_original(table.parent, file, days - day) for file in files]
        for commit in range(day * commits // days, (day + 1) * commits // days):
            version = last + 1 + commit
            for file, original in zip(files, originals, strict=True):
                name = file.name.replace(f"{last:020}", f"{version:020}")
                os.link(original, file.parent / re.sub(r"part-\d+", f"part-{version:08}", name))
    for file in newest:
        if "checkpoint" in file.name:
            name = file.name.replace(f"{last:020}", f"{last + commits:020}")
            (log / name).write_bytes(file.read_bytes())
    for file in log.glob("*_last_checkpoint*"):
        file.unlink()
    sizes = {"version": last + commits, "size": pointer["size"]}
    (log / "_last_checkpoint").write_text(json.dumps(sizes))


def _original(folder: Path, file: Path, days: int) -> Path:
    """A copy of *file* in *folder* that is so many *days* old."""
    original = folder / f"{days} {file.name}"
    original.write_bytes(file.read_bytes())
    old = time.time() - days * DAY_SECONDS
    os.utime(original, (old, old))
    return original


def _tables(spark: SparkSession, folder: Path) -> Tables:
    return Tables(spark, folder.as_uri(), most_files=1_000_000)


def _run(number: int) -> FinishedRuns:
    run = OffsetRun(10 * number, 10 * number + 10, 10 * number, 10)
    return FinishedRuns(1, {PARTITION: [run]}, IDS)


def _figures(spark: SparkSession, state: Path) -> dict[str, str]:
    table = OffsetTable(_tables(spark, state), FLOW)
    reader = DeltaReader(state.as_uri()).offsets(FLOW)
    appends = [seconds(partial(table.append, _run(50 + number))) for number in range(RUNS)]
    reads = [seconds(partial(reader.maps, {PARTITION: 0})) for _ in range(RUNS)]
    starts = [seconds(reader.progress) for _ in range(RUNS)]
    return {
        "files": f"{sum(file.is_file() for file in (state / OFFSET_RUNS).rglob('*')):,}",
        "append s": f"{median(appends):.2f}",
        "read for groups s": f"{median(reads):.2f}",
        "read at a start s": f"{median(starts):.2f}",
        "maintenance s": "",
        "longest append s": f"{max(appends):.1f}",
    }
