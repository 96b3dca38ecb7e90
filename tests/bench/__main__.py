"""Races this mirror, in each of its modes, against MirrorMaker 2 4.3.1.

The contenders run one after the other, on the same two brokers and from the same filled topic, each
into a remote topic of its own. Every second round runs them in the opposite order.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace

from replication.config.home import home
from tests.bench.cases import PEERS, Case
from tests.bench.load import Load
from tests.bench.options import assignments, parsed
from tests.bench.peers import Contender, Mirror, MirrorMaker2, in_turn
from tests.bench.plots import INSTALL, draw, is_installed
from tests.bench.program import FAILURES, Bench, exit_code
from tests.bench.race import Course
from tests.bench.report import ALONE, Result, print_tables
from tests.support.distance import Way
from tests.support.local import Clusters
from tests.support.program import end_on_signals, new_console

MIB = 1 << 20


def main() -> int:
    """Runs the races and returns the exit code: 0 if every contender finished."""
    options = parsed(sys.argv[1:], __doc__ or "")
    end_on_signals()
    console = new_console()
    bench = Bench("race", options, console)
    results: list[Result] = []
    try:
        code = exit_code(console, lambda: _run_races(options, bench, results))
    finally:
        if results:
            _show(options, bench, results)
    return code


def _run_races(options: argparse.Namespace, bench: Bench, results: list[Result]) -> int:
    console = bench.console
    with _brokers(options, bench) as (clusters, addresses):
        course = Course(bench.folder, clusters, _load(options), addresses=addresses)
        if not options.no_throughput:
            console.print(f"filling: {options.records:,} records of {options.size:,} bytes")
            course.fill()
        course.warm_up()
        if not options.no_throughput and options.rounds > 1:
            console.print("a race that does not count: the first one is slow, whoever runs it")
            with suppress(*FAILURES):
                course.throughput(contenders(options)[-1], 0)
        is_paced = any(_is_paced(contender, options) for contender in contenders(options))
        if is_paced:
            console.print("two minutes of single records warm the brokers")
            course.without_contender()
        for number in range(1, options.rounds + 1):
            for contender in in_turn(contenders(options), number):
                console.print(f"{contender.name}, round {number} of {options.rounds}", end=": ")
                began = time.monotonic()
                result = _result(course, contender, number, options)
                results.append(result)
                verdict = "failed after" if result.failure else "done in"
                console.print(f"{verdict} {time.monotonic() - began:.0f} s")
        if is_paced:
            console.print(f"{ALONE}: two minutes")
            results.append(Result(ALONE, 1, latencies=(course.without_contender(),)))
    return 1 if any(result.failure for result in results) else 0


@contextmanager
def _brokers(
    options: argparse.Namespace, bench: Bench
) -> Iterator[tuple[Clusters, tuple[str, str] | None]]:
    if not options.far:
        with bench.brokers() as clusters:
            yield clusters, None
        return
    way = Way(
        round_trip_s=options.round_trip / 1e3,
        jitter_s=options.jitter / 1e3,
        loss=options.loss,
        window_bytes=int(options.window * MIB),
    )
    with bench.brokers_apart(options.far, way) as apart:
        yield apart


def _result(
    course: Course, contender: Contender, number: int, options: argparse.Namespace
) -> Result:
    """The races of one contender. Its failure does not stop the others."""
    throughput = None
    try:
        if not options.no_throughput:
            throughput = course.throughput(contender, number)
        latencies = (
            course.latencies(contender, number, options.rates, options.seconds)
            if _is_paced(contender, options)
            else ()
        )
    except FAILURES as error:
        return Result(contender.name, number, throughput, failure=str(error))
    return Result(contender.name, number, throughput, latencies)


def _is_paced(contender: Contender, options: argparse.Namespace) -> bool:
    """Whether *contender* takes part in the latency race; a drain ends when it has caught up."""
    is_drain = isinstance(contender, Mirror) and contender.mode == "drain"
    return not options.no_latency and not is_drain


def contenders(options: argparse.Namespace) -> list[Contender]:
    """Who takes part."""
    settings, mm2_settings = assignments(options.set), assignments(options.mm2_set)
    settings |= _batches(options)
    spark = tuple(options.spark)
    mirrors = [Mirror(mode=mode, settings=settings, spark=spark) for mode in options.modes]
    mm2 = MirrorMaker2(jars=home() / "jars" / "mm2", settings=mm2_settings)
    return [
        *(mirrors if options.only != "mm2" else ()),
        *((mm2,) if options.only != "mirror" else ()),
        *(_further(one, at, options) for at, one in enumerate(options.case, start=1)),
    ]


def _further(one: Case, number: int, options: argparse.Namespace) -> Contender:
    """The contender of a ``--case``, which may have batches of its own."""
    if one.word not in PEERS:
        one = replace(one, settings={**_batches(options), **one.settings})
    return one.contender(number, options.modes[0])


def _batches(options: argparse.Namespace) -> dict[str, str]:
    seconds = options.batch_seconds
    return {"replication.realtime.batch.seconds": str(seconds)} if seconds else {}


def _load(options: argparse.Namespace) -> Load:
    return Load(partitions=options.partitions, records=options.records, size_bytes=options.size)


def _show(options: argparse.Namespace, bench: Bench, results: Sequence[Result]) -> None:
    """Prints the tables, and writes the files."""
    for at, one in enumerate(options.case, start=1):
        bench.console.print(f"case{at}: {one.text}", markup=False, soft_wrap=True)
    print_tables(bench.console, results, _load(options), options.rates, options.seconds)
    file = bench.write([asdict(result) for result in results])
    if is_installed():
        for drawn in draw(file, file.parent):
            bench.console.print(f"drawn: {drawn}", soft_wrap=True)
    else:
        bench.console.print(
            f"for plots: {INSTALL}, then python -m tests.bench.plots {file}", soft_wrap=True
        )


if __name__ == "__main__":
    sys.exit(main())
