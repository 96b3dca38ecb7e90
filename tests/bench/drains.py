"""What the 2 000th idle drain of a schedule costs beside the 10th: CPU, bytes and files.

The state is aged by what a drain of four flows does to it, the same code in one process: it takes
the leases, appends a run of each flow and the checkpoints of a group, and gives the leases back.
A drain a minute is played in less time, so the hour for which Delta keeps what it has replaced is
shortened alike.

    .local/venv/bin/python -m tests.bench.drains                    # some minutes
    .local/venv/bin/python -m tests.bench.drains --drains 400
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from replication.model import Flow, TopicPartition
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.state.claim import LEASE_PARTS, Claim, LeaseName
from replication.state.delta_reader import DeltaReader
from replication.state.lease import hold_lease
from replication.state.lease_book import LeaseBook
from replication.state.offset_table import OffsetTable
from replication.state.schemas import local_properties
from replication.state.tables import Tables, now
from tests.bench.aged_table import session
from tests.support.program import new_console

FLOWS = Flow("A", "B"), Flow("B", "A"), Flow("A", "C"), Flow("C", "A")
PARTITION = TopicPartition("heartbeats", 0)
EARLY, WINDOW = 10, 40
"""The early drain, and of how many a figure is the mean: merging comes every twenty or so."""

AN_HOUR = 60
"""Drains."""

TABLES = ("leases", "offset_runs", "checkpoints")


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
    stored_files: int


def main() -> int:
    """Prints the table."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="drains-") as name:
        folder = Path(name, "state")
        table = Table("", *(field.replace("_", " ") for field in Cost.__slots__))
        for label, cost in aged(folder, options.drains):
            figures = (f"{getattr(cost, field):,.1f}" for field in Cost.__slots__)
            table.add_row(label, *figures)
        new_console().print(table)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drains", type=int, default=2000)
    return parser.parse_args()


def aged(folder: Path, drains: int) -> Iterable[tuple[str, Cost]]:
    """The costs of early and late drains on one state directory."""
    with session() as spark:
        began = time.monotonic()
        for number in range(EARLY):
            drain(Tables(spark, folder.as_uri()), number)
        seconds = (time.monotonic() - began) / EARLY
        tables = Tables(spark, folder.as_uri())
        shortened = f"interval {max(1, round(AN_HOUR * seconds))} seconds"
        for table in TABLES:
            hours = (key for key in local_properties(table) if key.endswith("Duration"))
            tables.set_properties(table, dict.fromkeys(hours, shortened))
        drained = partial(_measured, spark, folder)
        yield f"{EARLY} to {EARLY + WINDOW}", drained(EARLY, WINDOW)
        middle = drains - EARLY - 2 * WINDOW
        yield f"to {drains - WINDOW}", drained(EARLY + WINDOW, middle)
        yield f"to {drains}", drained(drains - WINDOW, WINDOW)


def drain(tables: Tables, number: int) -> None:
    """What one idle drain of four flows does to the state; *tables* are of its own."""
    tables.begin_folder()
    names = [LeaseName(flow, part) for flow in FLOWS for part in LEASE_PARTS]
    claims = {name: Claim(name, tables.root, None) for name in names}
    for claim in claims.values():
        claim.look()
    book = LeaseBook(tables, claims.values(), FLOWS)
    reader = DeltaReader(tables.root)
    for flow in FLOWS:
        for part in ("metadata", ""):
            with hold_lease(tables, claims[LeaseName(flow, part)], book=book):
                if not part:
                    table = OffsetTable(tables, flow)
                    table.resume(reader.offsets(flow).progress())
                    runs = {PARTITION: [OffsetRun(number, number + 1, number, 1)]}
                    table.append(FinishedRuns(number + 1, runs, {PARTITION.topic: "id"}))
        with hold_lease(tables, claims[LeaseName(flow, "checkpoints")], book=book):
            _checkpoint(tables, flow, number)
    book.give_back(FLOWS)


def _checkpoint(tables: Tables, flow: Flow, number: int) -> None:
    row = {"flow": str(flow), "group": "payments", "topic": "orders", "partition": 0}
    place = {"remote_topic": "A.orders", "upstream": number, "downstream": number, "exact": True}
    tables.append("checkpoints", [{**row, **place, "reread": 0, "metadata": "", "at": now()}])


def _measured(spark: object, folder: Path, first: int, drains: int) -> Cost:
    """The mean cost of *drains* drains."""
    cpu, written, files = time.process_time(), 0, 0
    known = _files(folder)
    for number in range(first, first + drains):
        drain(Tables(spark, folder.as_uri()), number)  # type: ignore[arg-type]
        found = _files(folder)
        new = found.keys() - known.keys()
        written, files, known = written + sum(found[path] for path in new), files + len(new), found
    cpu = time.process_time() - cpu
    return Cost(
        1000 * cpu / drains,
        written / drains / 1000,
        files / drains,
        sum(known.values()) / 1000,
        len(known),
    )


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
