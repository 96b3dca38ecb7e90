"""What the 2 000th idle drain of a schedule costs beside the 10th: CPU, bytes and files.

The state is aged by what an idle drain of four flows commits to it, by the same code: it takes
the leases, appends a run for the heartbeat of each flow, and the ends of the flows, and gives the
leases back. A drain a minute is played in less time, so the hour for which Delta keeps what it has
replaced is shortened alike. Then an old state and a young one take turns, because the machine's
speed drifts.

    .local/venv/bin/python -m tests.bench.drains                    # 2 000 drains
    .local/venv/bin/python -m tests.bench.drains --drains 400 --topics 100
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table

from replication.config.group_settings import StateConfig
from replication.model import Flow, TopicPartition
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.session import LateSession, driver_jvm
from replication.state.claim import LEASE_PARTS, Claim, LeaseName
from replication.state.delta import DeltaReader
from replication.state.executions import EXECUTIONS, Execution, TopicEnd, rows_of
from replication.state.lease import LeaseBook, hold_lease
from replication.state.maintenance import TIME, Maintenance
from replication.state.offset_table import OffsetTable
from replication.state.schemas import short_properties
from replication.state.tables import Tables, now
from tests.support.program import new_console

FLOWS = Flow("A", "B"), Flow("B", "A"), Flow("A", "C"), Flow("C", "A")
HEARTBEATS = TopicPartition("heartbeats", 0)
YOUNG, WINDOW = 10, 60
"""How old the young state is, and of how many drains a figure is the mean; merges come between."""

AN_HOUR = 60
"""Drains."""

TABLES = ("leases", "offset_runs", EXECUTIONS)


@dataclass(frozen=True, slots=True)
class Cost:
    """What drains cost on average.

    Args:
        cpu_ms: Of the process.
        kilobytes: Written, in new files.
        files: Written.
        stored_kilobytes: Of the state directory afterwards.
        stored_files: In it.
    """

    cpu_ms: float
    kilobytes: float
    files: float
    stored_kilobytes: float
    stored_files: float


class State:
    """A state directory and the drains that have used it; their cost is counted from `measure` on.

    Args:
        spark: The session, which nothing here needs.
        folder: Of the state.
        topics: How many topics each flow has.
    """

    def __init__(self, spark: LateSession, folder: Path, topics: int) -> None:
        self._spark = spark
        self._folder = folder
        self._topics = [f"topic-{number}" for number in range(topics)]
        self._number = 0
        self.measure()

    def measure(self) -> None:
        """Begins to count."""
        self._first = self._number
        self._cpu = 0.0
        self._written = self._files = 0
        self._known = _files(self._folder)

    def age(self, drains: int) -> None:
        """Does so many drains."""
        for _ in range(drains):
            began = time.process_time()
            self._drain(Tables(self._spark, self._folder.as_uri()))
            self._number += 1
            self._cpu += time.process_time() - began
            found = _files(self._folder)
            new = found.keys() - self._known.keys()
            self._written += sum(found[path] for path in new)
            self._files += len(new)
            self._known = found

    def shorten(self, seconds: float) -> None:
        """Makes an hour of the tables as long as `AN_HOUR` drains of *seconds* each."""
        tables = Tables(self._spark, self._folder.as_uri())
        shortened = f"interval {max(1, round(AN_HOUR * seconds))} seconds"
        for table in TABLES:
            hours = (key for key in short_properties(table) if key.endswith("Duration"))
            tables.set_properties(table, dict.fromkeys(hours, shortened))

    def cost(self) -> Cost:
        """The mean cost of the drains since `measure`."""
        drains = self._number - self._first
        return Cost(
            1000 * self._cpu / drains,
            self._written / drains / 1000,
            self._files / drains,
            sum(self._known.values()) / 1000,
            len(self._known),
        )

    def maintain(self) -> list[float]:
        """The CPU seconds of the daily upkeep, of one flow after the other."""
        tables = Tables(self._spark, self._folder.as_uri())
        config = StateConfig(write_interval_seconds=30, retention_days=dict.fromkeys(TIME, 30))
        found = []
        for flow in FLOWS:
            began = time.process_time()
            Maintenance(tables, flow, config).run(now())
            found.append(time.process_time() - began)
        return found

    def _drain(self, tables: Tables) -> None:
        """Does what one idle drain of four flows does to the state; *tables* are of its own."""
        tables.begin_folder()
        began = now()
        names = [LeaseName(flow, part) for flow in FLOWS for part in LEASE_PARTS]
        claims = {name: Claim(name, tables.root, None) for name in names}
        for claim in claims.values():
            claim.look()
        book = LeaseBook(tables, claims.values(), FLOWS)
        for flow in FLOWS:
            for part in LEASE_PARTS:
                with hold_lease(tables, claims[LeaseName(flow, part)], book=book):
                    if not part:
                        self._append_run(tables, flow)
        book.give_back(FLOWS)
        ends = [TopicEnd(topic, reached=self._number) for topic in self._topics]
        for_all = ("mirror", "drain", "host 1", began, now(), "finished", 0, "", self._number, ends)
        executions = [Execution(flow, *for_all) for flow in FLOWS]  # type: ignore[arg-type]
        tables.append(EXECUTIONS, [row for one in executions for row in rows_of(one)])

    def _append_run(self, tables: Tables, flow: Flow) -> None:
        """Appends the run of a heartbeat; the first time a run for each topic."""
        table, at = OffsetTable(tables, flow), self._number
        table.resume(DeltaReader(tables.root).offsets(flow).progress())
        topics = [] if at else self._topics
        partitions = [HEARTBEATS, *(TopicPartition(topic, 0) for topic in topics)]
        runs = {tp: [OffsetRun(at, at + 1, at, 1)] for tp in partitions}
        table.append(FinishedRuns(at + 1, runs, {tp.topic: "id" for tp in partitions}))


def main() -> int:
    """Prints the table."""
    options = _options()
    table = Table("", *(field.replace("_", " ") for field in Cost.__slots__))
    console = new_console()
    spark = LateSession(SparkSession.builder.getOrCreate)
    driver_jvm()  # its start is no drain's
    with tempfile.TemporaryDirectory(prefix="drains-") as name:
        old, young = (State(spark, Path(name, age), options.topics) for age in ("old", "young"))
        for label, cost in _measured(old, young, options.drains):
            figures = (f"{getattr(cost, field):,.1f}" for field in Cost.__slots__)
            table.add_row(label, *figures)
        console.print(table)
        upkeep = ", ".join(f"{seconds:.2f}" for seconds in old.maintain())
    console.print(f"daily upkeep of the old state, CPU s of each flow: {upkeep}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drains", type=int, default=2000)
    parser.add_argument("--topics", type=int, default=8, help="of each flow")
    return parser.parse_args()


def _measured(old: State, young: State, drains: int) -> Iterator[tuple[str, Cost]]:
    """The costs of late drains, and of early ones that take turns with them."""
    began = time.monotonic()
    old.age(YOUNG)
    old.shorten((time.monotonic() - began) / YOUNG)
    old.age(drains - WINDOW - YOUNG)
    began = time.monotonic()
    young.age(YOUNG)
    young.shorten(2 * (time.monotonic() - began) / YOUNG)  # the other one takes as long
    for state in (old, young):
        state.measure()
    for _ in range(WINDOW):
        old.age(1)
        young.age(1)
    yield f"{YOUNG} to {YOUNG + WINDOW}", young.cost()
    yield f"{drains - WINDOW} to {drains}", old.cost()


def _files(folder: Path) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if path.exists():
                found[path] = path.stat().st_size
    return found


if __name__ == "__main__":
    sys.exit(main())
