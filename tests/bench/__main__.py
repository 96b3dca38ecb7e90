"""Races this mirror, in each of its modes, against MirrorMaker 2 4.3.1.

The contenders run one after the other, on the same two brokers and from the same filled topic, each
into a remote topic of its own.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.errors import ReplicationError
from tests.bench.latency import LatencyError, Pace
from tests.bench.options import parsed
from tests.bench.peers import Contender, Mirror, MirrorMaker2
from tests.bench.race import Course
from tests.bench.report import Result, print_tables, write_json
from tests.support.program import end_on_signals, new_console, new_folder_name
from tests.support.running_process import ProcessError

BROKER_HEAP_MB = 1024  # the default of Kafka's own script
BROKER_PROPERTIES = {
    "log.segment.delete.delay.ms": "1000"
}  # frees the space of a race for the next one
BUSY_LOAD = 0.5


def main() -> int:
    """Runs the races and returns the exit code: 0 if every contender finished."""
    options = parsed(sys.argv[1:], __doc__ or "")
    end_on_signals()
    console = new_console()
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        console.print(f"the machine is busy (load average {load:.1f}): expect noise")
    folder = new_folder_name("bench")
    results: list[Result] = []
    try:
        _run_races(options, folder, console, results)
    except ReplicationError as error:
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder / "brokers", ignore_errors=True)
        if results:
            file = folder.with_suffix(".json")
            write_json(file, results, vars(options) | {"load_before": load})
            print_tables(console, results, _titles(options), options.size)
            console.print(f"also in {file}; logs in {folder}", soft_wrap=True)
    return 1 if any(result.failure for result in results) else 0


def _run_races(
    options: argparse.Namespace, folder: Path, console: Console, results: list[Result]
) -> None:
    brokers = BrokerSettings(
        jars=home() / "jars" / "kafka",
        heap_mb=BROKER_HEAP_MB,
        jvm_options=(),
        properties=BROKER_PROPERTIES,
    )
    with two_clusters(folder / "brokers", brokers) as (source, target):
        pace = Pace(
            partitions=options.partitions,
            size_bytes=options.size,
            records_per_second=options.rate,
            seconds=options.seconds,
        )
        clusters = (source.bootstrap, target.bootstrap)
        course = Course(folder, clusters, records=options.records, pace=pace)
        if not options.no_throughput:
            console.print(f"filling: {options.records:,} records of {options.size:,} bytes")
            course.fill()
        for number in range(1, options.rounds + 1):
            for contender in _contenders(options):
                console.print(f"{contender.name}, round {number} of {options.rounds}", end=": ")
                began = time.monotonic()
                result = _result(course, contender, number, options)
                results.append(result)
                verdict = "failed after" if result.failure else "done in"
                console.print(f"{verdict} {time.monotonic() - began:.0f} s")


def _result(
    course: Course, contender: Contender, number: int, options: argparse.Namespace
) -> Result:
    """The races of one contender. Its failure does not stop the others."""
    throughput = latency = None
    try:
        if not options.no_throughput:
            throughput = course.throughput(contender, number)
        if (
            not options.no_latency and contender.name != "drain"
        ):  # a drain ends once it has caught up
            latency = course.latency(contender, number)
    except (ProcessError, LatencyError, ReplicationError) as error:
        return Result(contender.name, number, throughput, latency, str(error))
    return Result(contender.name, number, throughput, latency)


def _contenders(options: argparse.Namespace) -> list[Contender]:
    settings, mm2_settings = (
        dict(line.split("=", 1) for line in lines) for lines in (options.set, options.mm2_set)
    )
    spark = tuple(options.spark)
    mirrors = [Mirror(mode=mode, settings=settings, spark=spark) for mode in options.modes]
    mm2 = MirrorMaker2(jars=home() / "jars" / "mm2", settings=mm2_settings)
    return [
        *(mirrors if options.only != "mm2" else ()),
        *((mm2,) if options.only != "mirror" else ()),
    ]


def _titles(options: argparse.Namespace) -> tuple[str, str]:
    topic = f"{options.partitions} partitions, {options.size:,}-byte values"
    return (
        f"Throughput: {options.records:,} records, {topic}; after the first third",
        f"Latency from produced to visible: {options.rate:,}/s for {options.seconds} s, {topic}",
    )


if __name__ == "__main__":
    sys.exit(main())
