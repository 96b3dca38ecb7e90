"""Throughput and bytes per CPU second of this mirror and MirrorMaker 2 for many kinds of records.

Each cell of the matrix is a race of its own. By default each row of the table differs from the
first one in one thing; --only chooses among all 54 combinations by the words of their names:

    .local/venv/bin/python -m tests.bench.matrix
    .local/venv/bin/python -m tests.bench.matrix --only 100B,zstd
    .local/venv/bin/python -m tests.bench.matrix --only 64p --records 2000000 --megabytes 4000
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from replication.config.home import home
from tests.bench.load import COMPRESSIONS, CONTENT, Compression, Load
from tests.bench.options import positive
from tests.bench.peers import MODES, Contender, Mirror, MirrorMaker2, in_turn
from tests.bench.program import FAILURES, Bench, exit_code, ratio, spread
from tests.bench.race import Course
from tests.bench.report import MEGA, PEER
from tests.bench.throughput import Throughput
from tests.support.program import end_on_signals, new_console

SIZES: Final = {"100B": 100, "1KB": 1024, "10KB": 10_240}
PARTITIONS: Final = (1, 8, 64)
HEADERS: Final = {False: "plain", True: "headers"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of records, on a topic of so many partitions."""

    size: str = "1KB"
    compression: Compression = "none"
    has_headers: bool = False
    partitions: int = 8

    @property
    def words(self) -> tuple[str, ...]:
        """What `--only` can name."""
        headers = HEADERS[self.has_headers]
        return (self.size, self.compression, headers, f"{self.partitions}p")

    def load(self, records: int, megabytes: int) -> Load:
        """At most *records* and *megabytes* of them."""
        size_bytes = SIZES[self.size]
        return Load(
            partitions=self.partitions,
            records=min(records, megabytes * 1_000_000 // size_bytes),
            size_bytes=size_bytes,
            has_headers=self.has_headers,
            compression=self.compression,
        )

    def contenders(self, mode: str) -> list[Contender]:
        """Both, with producers that compress as the source topic is compressed."""
        settings = {"{target}.producer.compression.type": self.compression}
        return [
            Mirror(mode=next(known for known in MODES if known == mode), settings=settings),
            MirrorMaker2(jars=home() / "jars" / "mm2", settings=settings),
        ]


@dataclass(frozen=True, slots=True)
class Measured:
    """A contender's race in a cell."""

    cell: Cell
    name: str
    round: int
    throughput: Throughput | None
    failure: str | None = None


ALL: Final = tuple(
    Cell(*parts) for parts in itertools.product(SIZES, COMPRESSIONS, (False, True), PARTITIONS)
)


def one_thing_at_a_time() -> list[Cell]:
    """The plain cell, then those that differ from it in one thing."""
    plain = Cell()
    ways = [
        [replace(plain, size=size) for size in SIZES],
        [replace(plain, compression=compression) for compression in COMPRESSIONS],
        [replace(plain, has_headers=True)],
        [replace(plain, partitions=partitions) for partitions in PARTITIONS],
    ]
    return list(dict.fromkeys([plain, *itertools.chain(*ways)]))


def chosen(words: Iterable[str]) -> list[Cell]:
    """The cells whose names have all *words*; without words those of `one_thing_at_a_time`.

    Raises:
        argparse.ArgumentTypeError: No cell has them all.
    """
    wanted = set(words)
    found = [cell for cell in ALL if wanted <= set(cell.words)] if wanted else one_thing_at_a_time()
    if not found:
        known = (*SIZES, *COMPRESSIONS, *HEADERS.values(), *(f"{number}p" for number in PARTITIONS))
        raise argparse.ArgumentTypeError(
            f"no kind of records is {' and '.join(sorted(wanted))}; words: {', '.join(known)}"
        )
    return found


def main() -> int:
    """Prints the table; the exit code is 1 if a contender failed in a cell."""
    options = _options()
    end_on_signals()
    bench = Bench("matrix", options, new_console())
    measured: list[Measured] = []
    try:
        code = exit_code(bench.console, lambda: _measure(options, bench, measured))
    finally:
        if measured:
            bench.console.print(_table(measured))
            for one in measured:
                if one.failure:
                    words = " ".join(one.cell.words)
                    bench.console.print(f"{words}, {one.name}: {one.failure}", markup=False)
            bench.write([asdict(one) for one in measured])
    return code


def _measure(options: argparse.Namespace, bench: Bench, measured: list[Measured]) -> int:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    races = 2 * options.rounds * len(options.only)
    with bench.brokers() as clusters, Progress(*columns, console=bench.console) as progress:
        line = progress.add_task("warm-up", total=races)
        Course(bench.folder, clusters, Cell().load(options.records, options.megabytes)).warm_up()
        for at, cell in enumerate(options.only):
            load, topic = cell.load(options.records, options.megabytes), "-".join(cell.words)
            course = Course(bench.folder, clusters, load, topic=topic)
            course.fill()
            for number in range(1, options.rounds + 1):
                for contender in in_turn(cell.contenders(options.mode), at + number):
                    progress.update(line, description=f"{topic}: {contender.name}")
                    alias = at * options.rounds + number
                    measured.append(_measured(course, cell, contender, number, alias))
                    progress.advance(line)
            course.clear()
    return 1 if any(one.failure for one in measured) else 0


def _measured(
    course: Course, cell: Cell, contender: Contender, number: int, alias: int
) -> Measured:
    """A race, in which the contender's alias of the source has a number that no other race has."""
    try:
        return Measured(cell, contender.name, number, course.throughput(contender, alias))
    except FAILURES as error:
        return Measured(cell, contender.name, number, None, str(error))


def _table(measured: Sequence[Measured]) -> Table:
    ours = next((one.name for one in measured if one.name != PEER), "")
    table = Table(title=f"Throughput; {CONTENT}", title_justify="left")
    table.add_column("records")
    for what in ("MB/s", "MB per CPU s"):
        for heading in (f"{what} {ours}", f"{what} {PEER}", "ratio"):
            table.add_column(heading, justify="right")
    for cell in dict.fromkeys(one.cell for one in measured):
        runs = {
            name: [
                one.throughput
                for one in measured
                if one.cell == cell and one.name == name and one.throughput
            ]
            for name in (ours, PEER)
        }
        megabytes = SIZES[cell.size] / MEGA
        row = []
        for figure in (_per_second, _per_cpu_second):
            pair = [[figure(run) * megabytes for run in runs[name]] for name in (ours, PEER)]
            row += [*(spread(values) for values in pair), ratio(*pair)]
        table.add_row(" ".join(cell.words), *row)
    return table


def _per_second(run: Throughput) -> float:
    return run.records_per_second


def _per_cpu_second(run: Throughput) -> float:
    return run.records_per_cpu_second


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", type=lambda text: chosen(text.split(",")), default=chosen(()), metavar="WORD,...",
        help="only kinds of records with all these words: 1KB, zstd, plain, headers, 8p, ...",
    )  # fmt: skip
    parser.add_argument(
        "--records", type=positive, default=10_000_000, help="at most, in each cell"
    )
    parser.add_argument("--megabytes", type=positive, default=3000, help="at most, in each cell")
    parser.add_argument("--rounds", type=positive, default=1, help="races of each cell")
    parser.add_argument("--mode", choices=MODES, default="realtime", help="of the mirror")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
