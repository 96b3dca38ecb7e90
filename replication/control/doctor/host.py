"""Whether this machine can run the flows of a file: the file, what is installed, memory, slots."""

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from replication.config.tree import MirrorConfig
from replication.control import java, machine
from replication.control.doctor.judgement import Judgement, told, unknown
from replication.control.file_check import start_problems
from replication.errors import ConfigError, FlowError, SetupError
from replication.kafka.jvm import kafka_jars
from replication.model import Flow, Mode
from replication.spark.mode import (
    Continuous,
    few_files,
    local_slots,
    most_continuous,
    small_heap,
    too_few_slots,
)

PACKAGES: Final = ("pyspark", "delta-spark", "deltalake", "confluent-kafka")


def look_at_file(config: MirrorConfig, master: str) -> Iterator[Judgement]:
    """Yields what the file itself says."""
    problems = start_problems(config, master)
    for text in problems:
        yield told("the file", text, "problem", ConfigError.exit_code)
    for text in config.warnings:
        yield told("the file", text, "warning")
    if not problems and not config.warnings:
        yield Judgement(what="the file", found=f"{config.file} is valid")


def look_at_machine(
    config: MirrorConfig, master: str, heap_mb: int, environ: Mapping[str, str]
) -> Iterator[Judgement]:
    """Yields what a start finds of this machine before anything else."""
    seen = machine.look(config, environ)
    problems, warnings = machine.problems(seen, master), machine.warnings(seen, heap_mb)
    for text in problems:
        yield told("this machine", text, "problem", SetupError.exit_code, ": ")
    for text in warnings:
        yield told("this machine", text, "warning", separator=": ")
    if not problems and not warnings:
        yield Judgement(what="this machine", found=f"{seen.host}, {seen.memory_mb} MB")


def look_at_java(environ: Mapping[str, str]) -> Iterator[Judgement]:
    """Yields whether Spark runs on the Java that a start would take."""
    found, problem = java.look(environ)
    if problem:
        yield told("Java", problem, "problem", SetupError.exit_code)
    else:
        yield Judgement(what="Java", found=found)


def look_at_versions() -> Iterator[Judgement]:
    """Yields what is installed."""
    try:
        jars = [jar.stem for jar in kafka_jars() if jar.name.startswith("kafka-clients")]
        found = [*jars, *(f"{package} {version(package)}" for package in PACKAGES)]
    except SetupError as error:
        yield told("what is installed", str(error), "problem", error.exit_code, ": ")
    except PackageNotFoundError as error:
        yield Judgement(
            what="what is installed",
            found=f"the Python package {error.name} is missing",
            verdict="problem",
            next_step="./spark-submit.sh --setup",
            commands=("./spark-submit.sh --setup",),
            exit_code=SetupError.exit_code,
        )
    else:
        yield Judgement(what="what is installed", found=", ".join(found))


def judge_size(
    partitions: Mapping[Flow, int | None],
    modes: Mapping[Flow, Mode],
    heap_mb: int,
    files: int | None,
) -> Iterator[Judgement]:
    """Yields whether slots, heap and open files suffice.

    Args:
        partitions: Of each flow, or the tasks that share them; None where that is unknown.
        modes: Of each flow.
        heap_mb: The driver's heap.
        files: How many files it may open; None without a limit.
    """
    if silent := [str(flow) for flow, count in partitions.items() if count is None]:
        yield unknown("slots, heap and open files", f"so are the topics of {', '.join(silent)}")
        return
    counts = Counter[Mode]()
    for flow, count in partitions.items():
        counts[modes[flow]] += count or 0
    total, flows = sum(counts.values()), len(partitions)
    slots = local_slots(counts, most_continuous(heap_mb, flows, files))
    yield Judgement(what="slots", found=f"{total} tasks; a start on one machine takes {slots}")
    if text := small_heap(counts, heap_mb):
        yield told("heap", text, "warning")
    else:
        yield Judgement(what="heap", found=f"{heap_mb} MB suffice for {total} tasks")
    if text := few_files(counts, flows, files):
        yield told("open files", text, "problem", SetupError.exit_code, ": ")
    else:
        limit = "any number" if files is None else files
        yield Judgement(what="open files", found=f"{limit} may be open, which suffices")


def judge_slots(needs: Continuous, given: int, *, is_needed: bool) -> Judgement:
    """Returns what follows from the slots of ``--master``.

    Args:
        needs: What the flows need in Real-Time Mode.
        given: How many there are.
        is_needed: Whether a flow runs in no other mode.
    """
    what = "slots of --master"
    obstacle = too_few_slots(given, needs) if needs.partitions or needs.sharing else ""
    if not obstacle:
        return Judgement(what=what, found=f"{given} suffice")
    consequence = "" if is_needed else ": auto takes micro-batches"
    return Judgement(
        what=what,
        found=f"Real-Time Mode needs {obstacle.rpartition(';')[0]}{consequence}",
        verdict="problem" if is_needed else "warning",
        next_step=f"start with MASTER=local[{needs.slots}] or more, or without it, so that the "
        "start counts the slots",
        exit_code=FlowError.exit_code if is_needed else 0,
    )
