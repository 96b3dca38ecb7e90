"""Runs the demo: two local clusters, producers, the mirror between them, and a verdict.

The demo starts and stops the mirror as a user would, with ``spark-submit.sh``; everything else
simulates the user's environment. Exit code 0 means that both sides are equal record by record and
that the offset map is right.
"""

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from replication.config.state_access import StateAccess
from replication.demo.child import log_end
from replication.demo.compare import compare
from replication.demo.findings import Finding, find
from replication.demo.latency import LatencyProbe
from replication.demo.mirror_process import MirrorProcess
from replication.demo.paced import PacedProducer
from replication.demo.report import Screen, how_to_connect, show
from replication.demo.scene import (
    FLOW,
    PARTITIONS,
    Scene,
    fill_topics,
    kafka_jars,
    new_folder,
    two_running_clusters,
)
from replication.demo.topic_log import log_ends
from replication.demo.workload import difficult_records, plain_records
from replication.errors import FlowError, ReplicationError
from replication.model import Mode
from replication.state.readers import open_reader

REPOSITORY = Path(__file__).resolve().parents[2]
PER_SECOND, PAYMENTS_PER_SECOND = 800, 200
STALL_SECONDS = 300.0  # a busy machine takes minutes to start Spark
POLL_SECONDS = 0.2
SERVING = re.compile(r" event=serving text=(http://\S+)\n")
LOG_FILE_WIDTH = 130  # wide enough for the table


def run(*, keep: bool, seconds: float = 20, mode: Mode = "auto") -> int:
    """Runs the demo.

    Args:
        keep: Keep clusters and mirror running after the verdict, until Ctrl-C.
        seconds: How long the producers run while the mirror runs.
        mode: ``replication.mode`` of the mirror.

    Returns:
        0 if both sides are equal, 1 if not, 130 if interrupted.
    """
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, LOG_FILE_WIDTH)
    folder = new_folder()
    try:
        with _interruptible(), two_running_clusters(folder, Screen(console)) as scene:
            is_equal = _play(scene, keep=keep, seconds=seconds, mode=mode)
    except KeyboardInterrupt:
        console.print(f"Interrupted; logs are in {folder}")
        return 130
    except ReplicationError:
        console.print(f"[red]The demo failed[/]; logs are in {folder}", soft_wrap=True)
        raise
    if not is_equal:
        console.print(f"Logs are in {folder}", soft_wrap=True)
        return 1
    shutil.rmtree(folder)
    return 0


def _play(scene: Scene, *, keep: bool, seconds: float, mode: Mode) -> bool:
    """Plays all steps; returns whether both sides are equal."""
    screen = scene.screen
    with screen.step(f"Filling {len(PARTITIONS)} topics on {FLOW.source}"):
        counts = fill_topics(scene.source.bootstrap)
    config = scene.write_config()
    serve = ("--serve",) if keep else ()
    options = " ".join(("--mode", mode, *serve))
    screen.say(f"Starting the mirror: ./spark-submit.sh --config {config} {options}")
    arguments = ("--config", str(config), "--flow", str(FLOW), "--mode", mode, *serve)
    with _mirror(arguments, scene.folder / "mirror.log") as mirror:
        page = _page(mirror) if keep else ""
        if keep:
            screen.say(f"Its page: {page}")
        latencies = _replicate(scene, counts, mirror, seconds)
        if not keep:
            with screen.step("Stopping the mirror (SIGTERM)"):
                mirror.stop()
        findings = _judge(scene, latencies, is_running=keep)
        show(screen, FLOW, findings)
        if keep:
            with suppress(KeyboardInterrupt):
                how_to_connect(screen, (scene.source, scene.target), kafka_jars(), config, page)
                while True:
                    mirror.run_for(3600)
            with screen.step("Stopping the mirror and both clusters"):
                mirror.stop()
    return all(finding.is_right for finding in findings)


def _replicate(
    scene: Scene, counts: dict[str, int], mirror: MirrorProcess, seconds: float
) -> dict[str, list[float]]:
    """Replicates the existing records, then new ones; returns the latencies of the new ones."""
    screen = scene.screen
    with screen.step("Starting Spark and copying the existing records") as show_progress:
        _await_copies(scene, counts, mirror, show_progress)
    probe = LatencyProbe(scene.target.bootstrap, tuple(scene.remote_topics.values()))
    probe.start()
    rate = PER_SECOND + PAYMENTS_PER_SECOND
    with screen.step(f"Producing {rate} records/s for {seconds:g} s"):
        _produce(scene.source.bootstrap, counts, mirror, seconds)
    with screen.step(f"Waiting until {FLOW.target} has caught up") as show_progress:
        _await_copies(scene, counts, mirror, show_progress)
    return probe.finish()


def _produce(source: str, counts: dict[str, int], mirror: MirrorProcess, seconds: float) -> None:
    """Produces while the mirror runs; adds the committed records to *counts*."""
    now_ms = time.time_ns() // 1_000_000
    topics = {
        "orders": difficult_records(PARTITIONS["orders"], now_ms=now_ms),
        # A compacted topic rejects records without a key.
        "customers": plain_records(PARTITIONS["customers"], size_bytes=500, now_ms=now_ms),
    }
    payments = difficult_records(PARTITIONS["payments"], now_ms=now_ms, large_every=0)
    producers = (
        PacedProducer(source, topics, records_per_second=PER_SECOND),
        PacedProducer(
            source,
            {"payments": payments},
            records_per_second=PAYMENTS_PER_SECOND,
            transactional=True,
        ),
    )
    for producer in producers:
        producer.start()
    try:
        mirror.run_for(seconds)
    finally:
        for producer in producers:
            for topic, count in producer.finish().items():
                counts[topic] += count


def _await_copies(
    scene: Scene,
    counts: dict[str, int],
    mirror: MirrorProcess,
    show_progress: Callable[[str], None],
) -> None:
    """Waits until the target's logs hold as many records as the source has committed."""
    wanted, before, deadline = sum(counts.values()), 0, time.monotonic() + STALL_SECONDS
    while True:
        remote_ends = log_ends(scene.target.bootstrap, scene.remote_topics.values())
        ends = {topic: remote_ends[remote] for topic, remote in scene.remote_topics.items()}
        copied = sum(ends.values())
        show_progress(f"{copied} of {wanted} records")
        if all(ends[topic] >= counts[topic] for topic in counts):
            return
        if copied > before:
            before, deadline = copied, time.monotonic() + STALL_SECONDS
        if time.monotonic() > deadline:
            raise FlowError(
                f"the mirror stopped at {copied} of {wanted} records for {STALL_SECONDS:.0f} s "
                f"(log ends on {FLOW.target}: {ends}, wanted: {counts}); see {mirror.log}"
            )
        # Kafka sends no event when a log grows: poll, but fail at once if the mirror ends.
        mirror.run_for(POLL_SECONDS)


def _judge(scene: Scene, latencies: dict[str, list[float]], *, is_running: bool) -> list[Finding]:
    """Compares all records of both sides, and the offset map with the records' offsets."""
    source, target = scene.source.bootstrap, scene.target.bootstrap
    with scene.screen.step("Comparing both sides record by record"):
        reports = compare(source, target, scene.remote_topics, keep_offsets=True)
    with (
        scene.screen.step("Comparing the offset map with the records"),
        open_reader(StateAccess(scene.state_dir)) as state,
    ):
        return find(reports, latencies, state.offsets(FLOW).runs, is_running=is_running)


def _page(mirror: MirrorProcess) -> str:
    """Waits until the mirror's log has the address of its page, and returns it.

    Raises:
        FlowError: The mirror ended, or the page is not there in time.
    """
    deadline = time.monotonic() + STALL_SECONDS
    while not (found := SERVING.search(mirror.log.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            raise FlowError(f"no page after {STALL_SECONDS:.0f} s; {log_end(mirror.log)}")
        mirror.run_for(POLL_SECONDS)
    return found.group(1)


@contextmanager
def _mirror(arguments: tuple[str, ...], log: Path) -> Iterator[MirrorProcess]:
    mirror = MirrorProcess(REPOSITORY / "spark-submit.sh", arguments, log)
    try:
        yield mirror
    finally:
        mirror.discard()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Makes SIGTERM stop the demo in order, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
