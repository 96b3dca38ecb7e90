"""The embedded default: two clusters here, producers, the mirror between them, a verdict.

The mirror is started and stopped as a user would do it, through ``spark-submit.sh``; all else here
stands for the user's own context. Exit code 0 means that both sides are equal record by record and
that the offset map is right.
"""

import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml
from rich.console import Console

from replication.config.home import home
from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import QUICK_COMPACTION, Broker, BrokerSettings, two_clusters
from replication.demo.compacted_topic import create_compacted_topic
from replication.demo.compare import compare
from replication.demo.mirror_process import MirrorProcess
from replication.demo.paced import LatencyProbe, PacedProducer
from replication.demo.report import Finding, Screen, findings, how_to_connect, show
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    create_topic,
    difficult_records,
    plain_records,
    send_transactions,
    sending,
)
from replication.errors import ClusterError, FlowError, ReplicationError
from replication.model import Flow, Mode, TopicPartition
from replication.offsets.map import OffsetRun, merge_runs
from replication.state.tables import Tables, local_tables

REPOSITORY = Path(__file__).resolve().parents[2]
FLOW = Flow("us-west", "us-east")
PARTITIONS = {"orders": 4, "payments": 2, "customers": 2, "settings": 1}
ORDERS, PAYMENTS, SETTINGS = 20_000, 2_000, 3
PER_SECOND, PAYMENTS_PER_SECOND = 800, 200
STALL_SECONDS = 300.0  # a busy machine takes minutes to start Spark


@dataclass(frozen=True, slots=True)
class Scene:
    """What the demo plays on."""

    folder: Path
    source: Broker
    target: Broker
    screen: Screen

    @property
    def remote_topics(self) -> dict[str, str]:
        """Upstream name -> remote name, as MirrorMaker 2's default policy has it."""
        return {topic: f"{FLOW.source}.{topic}" for topic in PARTITIONS}


def run(*, keep: bool, seconds: float = 20, mode: Mode = "auto") -> int:
    """Plays the demo.

    Args:
        keep: Leave clusters and mirror running after the verdict, until Ctrl-C.
        seconds: How long the producers run beside the mirror.
        mode: Of the mirror.

    Returns:
        0 if both sides are equal, 1 if not, 130 if interrupted.
    """
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 130)  # a log file has room for the table
    folder = _new_folder()
    try:
        with _interruptible(), _scene(folder, Screen(console)) as scene:
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
    """The demo itself; whether both sides are equal."""
    screen, target = scene.screen, scene.target.bootstrap
    with screen.step("Filling 4 topics on us-west"):
        counts = _fill(scene.source.bootstrap)
    config = _write_config(scene)
    screen.say(f"Starting the mirror: ./spark-submit.sh --config {config} --mode {mode}")
    arguments = ("--config", str(config), "--flow", str(FLOW), "--mode", mode)
    with _mirror(arguments, scene.folder / "mirror.log") as mirror:
        with screen.step("Waiting until the mirror has copied what was there") as note:
            _await_copies(scene, counts, mirror, note)
        probe = LatencyProbe(target, tuple(scene.remote_topics.values()))
        probe.start()
        with screen.step(f"Producing {PER_SECOND + PAYMENTS_PER_SECOND} records/s for {seconds} s"):
            _produce(scene.source.bootstrap, counts, mirror, seconds)
        with screen.step("Waiting until us-east has caught up") as note:
            _await_copies(scene, counts, mirror, note)
        latencies = probe.finish()
        if not keep:
            with screen.step("Stopping the mirror (SIGTERM)"):
                mirror.stop()
        found = _judge(scene, latencies)
        show(screen, FLOW, found)
        if keep:
            how_to_connect(screen, FLOW, scene.source, scene.target, _jars(), config)
            _until_interrupted(mirror)
            with screen.step("Stopping the mirror and both clusters"):
                mirror.stop()
    return all(finding.is_right for finding in found)


def _fill(source: str) -> dict[str, int]:
    """Makes the topics, each of another kind; returns the committed records of each."""
    now_ms = time.time_ns() // 1_000_000
    for topic in ("orders", "payments", "settings"):
        create_topic(source, topic, PARTITIONS[topic])
    with sending(source) as sender:
        orders = difficult_records(PARTITIONS["orders"], now_ms=now_ms)
        sender.send_all("orders", islice(orders, ORDERS))
        settings = plain_records(1, size_bytes=20, now_ms=now_ms)
        sender.send_all("settings", islice(settings, SETTINGS))
    payments = difficult_records(PARTITIONS["payments"], now_ms=now_ms, large_every=0)
    committed = send_transactions(
        source, "payments", islice(payments, PAYMENTS), records_each=50, abort_every=5
    )
    left = create_compacted_topic(source, "customers", PARTITIONS["customers"], now_ms=now_ms)
    return {
        "orders": ORDERS,
        "payments": committed,
        "customers": left * PARTITIONS["customers"],
        "settings": SETTINGS,
    }


def _produce(source: str, counts: dict[str, int], mirror: MirrorProcess, seconds: float) -> None:
    """Producers beside the running mirror; adds to *counts* what they committed."""
    now_ms = time.time_ns() // 1_000_000
    topics = {
        "orders": difficult_records(PARTITIONS["orders"], now_ms=now_ms),
        # A compacted topic takes no record without a key.
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
    scene: Scene, counts: dict[str, int], mirror: MirrorProcess, note: Callable[[str], None]
) -> None:
    """Until the target's logs are as long as the source has committed records."""
    wanted, before, deadline = sum(counts.values()), 0, time.monotonic() + STALL_SECONDS
    while True:
        remote_ends = log_ends(scene.target.bootstrap, scene.remote_topics.values())
        ends = {topic: remote_ends[remote] for topic, remote in scene.remote_topics.items()}
        copied = sum(ends.values())
        note(f"{copied} of {wanted} records")
        if all(ends[topic] >= counts[topic] for topic in counts):
            return
        if copied > before:
            before, deadline = copied, time.monotonic() + STALL_SECONDS
        if time.monotonic() > deadline:
            raise FlowError(
                f"the mirror stopped at {copied} of {wanted} records for {STALL_SECONDS:.0f} s "
                f"(log ends on {FLOW.target}: {ends}, wanted: {counts}); see {mirror.log}"
            )
        mirror.run_for(0.2)  # no event tells of another cluster's log: ask again, unless it died


def _judge(scene: Scene, latencies: dict[str, list[float]]) -> list[Finding]:
    """Compares both sides in full, and the offset map with where the records really are."""
    source, target = scene.source.bootstrap, scene.target.bootstrap
    with scene.screen.step("Comparing both sides record by record"):
        reports = compare(source, target, scene.remote_topics, keep_offsets=True)
    with (
        scene.screen.step("Reading the offset map from Delta"),
        local_tables(_state_dir(scene)) as tables,
    ):
        runs = _runs(tables)
    return findings(reports, latencies, lambda tp: merge_runs(runs[tp]))


def _runs(tables: Tables) -> dict[TopicPartition, list[OffsetRun]]:
    """All runs of the flow by one query; asking partition by partition would be one each."""
    runs = defaultdict(list)
    newest_last = tables.of("offset_runs", FLOW).orderBy("generation", "tgt_from", "written_at")
    for row in tables.collect(newest_last, "offset_runs"):
        run = OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])
        runs[TopicPartition(row["topic"], row["partition"])].append(run)
    return runs


def _write_config(scene: Scene) -> Path:
    """The least a user would write, in MirrorMaker 2's keys."""
    settings = {
        "clusters": [FLOW.source, FLOW.target],
        FLOW.source: {
            "bootstrap.servers": scene.source.bootstrap,
            "consumer.isolation.level": "read_committed",  # else aborted records cross, as in MM2
        },
        FLOW.target: {"bootstrap.servers": scene.target.bootstrap},
        str(FLOW): {"enabled": True, "topics": list(PARTITIONS)},
        **dict.fromkeys(REPLICATION_FACTORS, 1),  # each cluster has one broker
        "state.dir": _state_dir(scene),
    }
    file = scene.folder / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return file


def _state_dir(scene: Scene) -> str:
    return (scene.folder / "state").as_uri()


def _jars() -> Path:
    return home() / "jars" / "kafka"


def _new_folder() -> Path:
    demos = home() / "demo"
    demos.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=demos)).resolve()


@contextmanager
def _scene(folder: Path, screen: Screen) -> Iterator[Scene]:
    if not list(_jars().glob("*.jar")):
        raise ClusterError(f"no Kafka jars in {_jars()}: run ./spark-submit.sh, which fetches them")
    settings = BrokerSettings(jars=_jars(), properties=QUICK_COMPACTION)
    with ExitStack() as stack:
        with screen.step(f"Starting two Kafka clusters, {FLOW.source} and {FLOW.target}"):
            both = two_clusters(folder, settings, aliases=(FLOW.source, FLOW.target))
            source, target = stack.enter_context(both)
        yield Scene(folder, source, target, screen)


@contextmanager
def _mirror(arguments: tuple[str, ...], log: Path) -> Iterator[MirrorProcess]:
    mirror = MirrorProcess(REPOSITORY / "spark-submit.sh", arguments, log)
    try:
        yield mirror
    finally:
        mirror.discard()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: everything it started is stopped in order."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_interrupted(mirror: MirrorProcess) -> None:
    try:
        while True:
            mirror.run_for(3600)
    except KeyboardInterrupt:
        return
