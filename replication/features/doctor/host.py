"""Whether this machine can run the flows of a file: the file, what is installed, memory, slots."""

import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control import machine
from replication.control.lease_groups import LeaseGroup, LeaseGroups
from replication.control.machine import start_problems
from replication.control.partitions import PATIENCE_SECONDS
from replication.errors import (
    ClusterError,
    ConfigError,
    FlowError,
    ReplicationError,
    SetupError,
    StateError,
)
from replication.features.doctor.check_result import CheckResult, failed, told, unknown
from replication.kafka.cluster import open_clusters
from replication.kafka.jvm import kafka_jars
from replication.kafka.registry import Registry
from replication.model import Flow, Mode
from replication.spark.mode import (
    Continuous,
    few_files,
    local_slots,
    most_continuous,
    small_heap,
    too_few_slots,
)
from replication.state.cluster_ids import (
    StoredTopics,
    check_ids,
    check_topics,
    stored_ids,
    stored_topics,
)
from replication.state.engine_mark import try_remote
from replication.state.folder import SPACE_STEP, existing, folder_obstacle, free_mb, local_path
from replication.state.locks import find_job_owner
from replication.state.storage import storage_for
from replication.state.table_reader import StateReader

PACKAGES: Final = ("pyspark", "delta-spark", "deltalake", "confluent-kafka")


def look_at_file(config: MirrorConfig, master: str) -> Iterator[CheckResult]:
    """Yields what the file itself says."""
    problems = start_problems(config, master)
    for text in problems:
        yield told("the file", text, "problem", ConfigError.exit_code)
    for text in config.warnings:
        yield told("the file", text, "warning")
    if not problems and not config.warnings:
        yield CheckResult(what="the file", found=f"{config.file} is valid")


def look_at_machine(
    config: MirrorConfig, master: str, heap_mb: int, environ: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Yields what a start finds of this machine before anything else."""
    seen = machine.look(config, environ)
    problems, warnings = machine.problems(seen, master), machine.warnings(seen, heap_mb)
    for text in problems:
        yield told("this machine", text, "problem", SetupError.exit_code, ": ")
    for text in warnings:
        yield told("this machine", text, "warning", separator=": ")
    if not problems and not warnings:
        yield CheckResult(what="this machine", found=f"{seen.host}, {seen.memory_mb} MB")


OLDEST_JAVA: Final = 17
NEWEST_JAVA: Final = 25
JAVA_STEP: Final = "install a JDK 17 or 21, or set JAVA_HOME to one"
JAVA_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


def _java_here(environ: Mapping[str, str]) -> tuple[str, str]:
    """Returns what Java says of itself, and why Spark does not run on it; "" if it does."""
    java_home = environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else "java"
    try:
        done = subprocess.run(  # noqa: S603 - a start runs it, too
            [java, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=JAVA_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{java} cannot be run ({error}); {JAVA_STEP}"
    return judge_java(java, done.stdout.decode(errors="replace"))


def judge_java(java: str, answer: str) -> tuple[str, str]:
    """Returns what follows from the *answer* to ``-version`` of the program *java*."""
    found = _VERSION.search(answer)
    if found is None:
        said = " ".join(answer.split())
        return "", f"{java} does not say its version ({said or 'no answer'}); {JAVA_STEP}"
    if not OLDEST_JAVA <= int(found[1]) <= NEWEST_JAVA:
        runs_on = f"Spark 4.2 runs on {OLDEST_JAVA} to {NEWEST_JAVA}"
        return found[0], f"{java} is Java {found[1]}, {runs_on}; {JAVA_STEP}"
    return f"{java}, {found[0]}", ""


def look_at_java(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yields whether Spark runs on the Java that a start would take."""
    found, problem = _java_here(environ)
    if problem:
        yield told("Java", problem, "problem", SetupError.exit_code)
    else:
        yield CheckResult(what="Java", found=found)


def look_at_versions() -> Iterator[CheckResult]:
    """Yields what is installed."""
    try:
        jars = [jar.stem for jar in kafka_jars() if jar.name.startswith("kafka-clients")]
        found = [*jars, *(f"{package} {version(package)}" for package in PACKAGES)]
    except SetupError as error:
        yield told("what is installed", str(error), "problem", error.exit_code, ": ")
    except PackageNotFoundError as error:
        yield CheckResult(
            what="what is installed",
            found=f"the Python package {error.name} is missing",
            verdict="problem",
            next_step="./spark-submit.sh --setup",
            commands=("./spark-submit.sh --setup",),
            exit_code=SetupError.exit_code,
        )
    else:
        yield CheckResult(what="what is installed", found=", ".join(found))


def judge_size(
    partitions: Mapping[Flow, int | None],
    modes: Mapping[Flow, Mode],
    heap_mb: int,
    files: int | None,
) -> Iterator[CheckResult]:
    """Yields whether slots, heap and open files suffice.

    *partitions* are a flow's, or the tasks that share them, None where that is unknown; *files* is
    None without a limit.
    """
    if silent := [str(flow) for flow, count in partitions.items() if count is None]:
        yield unknown("slots, heap and open files", f"so are the topics of {', '.join(silent)}")
        return
    counts = Counter[Mode]()
    for flow, count in partitions.items():
        counts[modes[flow]] += count or 0
    total, flows = sum(counts.values()), len(partitions)
    slots = local_slots(counts, most_continuous(heap_mb, flows, files))
    yield CheckResult(what="slots", found=f"{total} tasks; a start on one machine takes {slots}")
    if text := small_heap(counts, heap_mb):
        yield told("heap", text, "warning")
    else:
        yield CheckResult(what="heap", found=f"{heap_mb} MB suffice for {total} tasks")
    if text := few_files(counts, flows, files):
        yield told("open files", text, "problem", SetupError.exit_code, ": ")
    else:
        limit = "any number" if files is None else files
        yield CheckResult(what="open files", found=f"{limit} may be open, which suffices")


def judge_slots(needs: Continuous, given: int, *, is_needed: bool) -> CheckResult:
    """Returns what follows from *given* slots of ``--master``.

    *needs* are those of Real-Time Mode, *is_needed* if a flow runs in no other mode.
    """
    what = "slots of --master"
    obstacle = too_few_slots(given, needs) if needs.partitions or needs.sharing else ""
    if not obstacle:
        return CheckResult(what=what, found=f"{given} suffice")
    consequence = "" if is_needed else ": auto takes micro-batches"
    return CheckResult(
        what=what,
        found=f"Real-Time Mode needs {obstacle.rpartition(';')[0]}{consequence}",
        verdict="problem" if is_needed else "warning",
        next_step=f"start with MASTER=local[{needs.slots}] or more, or without it, so that the "
        "start counts the slots",
        exit_code=FlowError.exit_code if is_needed else 0,
    )


# Whether state.dir can be used, and whether it is of the clusters that the file names.

LITTLE_MB: Final = 1024
"""From so little free space on there is a warning: the tables need megabytes a day."""


def look_at_state_dir(config: MirrorConfig) -> Iterator[CheckResult]:
    """Yields whether state.dir can be written, renamed in and listed; locally also its space."""
    folder = local_path(config.state_dir)
    if folder is not None:
        what, (obstacle, step) = f"state.dir {folder}", folder_obstacle(folder)
        if obstacle:
            yield CheckResult(
                what=what,
                found=obstacle,
                verdict="problem",
                next_step=step,
                exit_code=StateError.exit_code,
            )
        else:
            yield judge_space(what, free_mb(existing(folder)), is_new=not folder.exists())
        return
    what = f"state.dir {config.state_dir}"
    try:
        storage = storage_for(config.access)
        try_remote(storage)
    except ReplicationError as error:
        yield failed(what, error)
    else:
        found = f"can be written and listed; tables by {storage.engine} ({storage.why})"
        yield CheckResult(what=what, found=found)


def judge_space(what: str, left: int, *, is_new: bool) -> CheckResult:
    """Returns what follows from *left* MB of free space under a folder that can be written."""
    does = "will be made" if is_new else "can be written, locked and listed"
    found = f"{does}; {left} MB are free"
    if left < LITTLE_MB:
        return CheckResult(what=what, found=found, verdict="warning", next_step=SPACE_STEP)
    return CheckResult(what=what, found=found)


def look_at_identity(
    config: MirrorConfig, flow: FlowConfig, state: StateReader, ids: Mapping[str, str]
) -> CheckResult:
    """Returns what a start would say of the tables: whether they are of the clusters of *ids*."""
    what = f"state of {flow.flow}"
    try:
        stored = stored_ids(state, flow)
        new = check_ids(flow, config.state_dir, stored, ids)
        unnamed = {alias: new[alias] for alias in new if alias not in stored}
        topics: StoredTopics = stored_topics(state, flow) if unnamed else {}
        if any(topics.values()):
            with open_clusters(flow, PATIENCE_SECONDS) as both:
                check_topics(flow, config.state_dir, unnamed, topics, both)
    except ClusterError as error:
        return unknown(what, str(error))
    except ReplicationError as error:
        return failed(what, error)
    if missing := [side.alias for side in (flow.source, flow.target) if side.alias not in ids]:
        return unknown(what, f"the cluster id of {', '.join(missing)} is unknown")
    if any(topics.values()):
        names = " and ".join(sorted(unnamed))
        found = f"does not name its clusters; topics of it are on {names}, and a start notes the id"
    else:
        found = "is of these clusters" if stored else "is new"
    return CheckResult(what=what, found=found)


def look_at_ports(config: MirrorConfig) -> Iterator[CheckResult]:
    """Yields whether the driver and ``serve`` can listen where the file says."""
    owners = (find_job_owner(config.state_dir, flow) for flow in config.names)
    is_running = any(owner is not None for owner in owners)
    metrics, rest = config.metrics, config.serve
    if metrics.port and metrics.port == rest.port:
        yield CheckResult(
            what="ports",
            found=f"metrics.port and rest.port are both {rest.port}",
            verdict="warning",
            next_step="give one of them another number, if `serve` runs on this machine",
        )
    for key, listen, port in (
        ("metrics.port", metrics.listen, metrics.port),
        ("rest.port", rest.listen, rest.port),
    ):
        if port:
            yield judge_port(f"{key} {port}", _port_obstacle(listen, port), is_running=is_running)


def judge_port(what: str, obstacle: str, *, is_running: bool) -> CheckResult:
    """Returns what follows if nothing can listen there because of *obstacle*; "" if it can."""
    if not obstacle:
        return CheckResult(what=what, found="free")
    if is_running:
        return unknown(what, f"{obstacle}, perhaps because of a job of this file that runs here")
    key = what.partition(" ")[0]
    return CheckResult(
        what=what,
        found=obstacle,
        verdict="warning",
        next_step=f"write another {key}, or end the program that has it (ss -ltnp)",
    )


def _port_obstacle(listen: str, port: int) -> str:
    try:
        family, kind, _, _, place = socket.getaddrinfo(listen, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, UnicodeError) as error:
        return f"{listen}:{port}: {getattr(error, 'strerror', None) or error}"
    return ""


AGAIN_SECONDS: Final = 2.0


def look_at_leases(config: MirrorConfig) -> Iterator[CheckResult]:
    """Yields for each flow who holds its lease."""
    with LeaseGroups() as coordinators:
        witnesses = coordinators.ask(config.flows)
        if any(witness.members is None for witness in witnesses.values()):
            time.sleep(AGAIN_SECONDS)  # a new cluster creates its groups' topic when first asked
            witnesses = coordinators.ask(config.flows)
    for flow in config.flows:
        owner = find_job_owner(config.state_dir, flow.flow)
        yield judge_lease(f"lease of {flow.flow}", config.file, owner, witnesses[flow.flow])


def judge_lease(what: str, file: str, owner: object | None, witness: LeaseGroup) -> CheckResult:
    """Returns what follows from the process *owner* on this machine and from the lease's group."""
    if witness.members is None:
        if witness.denied is not None:
            return failed(what, witness.denied)
        return unknown(what, witness.reason)
    if owner is not None and witness.members:
        return CheckResult(what=what, found=f"held, and the flow runs here: {owner}")
    if owner is not None:
        return CheckResult(
            what=what,
            found=f"not held (group {witness.group} has no member), although {owner} has the flow",
            verdict="warning",
            next_step=f"python -m replication status {file} says what that process does",
        )
    if witness.members:
        return CheckResult(
            what=what,
            found=f"held by a process that does not run here (group {witness.group})",
            verdict="warning",
            next_step="stop that process before you start this one, or start this one with "
            f"--standby; python -m replication status {file} names it",
        )
    return CheckResult(what=what, found="free")


def look_at_registries(config: MirrorConfig) -> Iterator[CheckResult]:
    """Yields whether each registry answers that a flow of the file asks."""
    asked = {
        alias: registry
        for flow in config.flows
        if flow.schemas.mode != "none"
        for alias, registry in (
            (flow.flow.source, flow.schemas.source_registry),
            (flow.flow.target, flow.schemas.target_registry),
        )
    }
    for alias, registry in asked.items():
        what = f"schema registry of {alias}"
        try:
            with closing(Registry(alias, registry)) as asked_registry:
                subjects = len(asked_registry.subjects())
        except ClusterError as error:
            yield failed(what, error)
        else:
            yield CheckResult(what=what, found=f"answers, {subjects} subjects")
