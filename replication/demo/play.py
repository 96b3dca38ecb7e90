"""Runs the demo: two local clusters, producers, the mirror between them, and a verdict.

The demo starts and stops the mirror as a user would, with ``spark-submit.sh``; everything else
simulates the user's environment. Exit code 0 means that both sides are equal record by record and
that the offset map is right.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from replication.config.home import home
from replication.config.keys import REPLICATION_FACTORS
from replication.config.state_access import StateAccess
from replication.demo.brokers import (
    QUICK_COMPACTION,
    Broker,
    BrokerSettings,
    Watchdog,
    log_end,
    start_child,
    two_clusters,
)
from replication.demo.compare import Finding, compare, find
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    LatencyProbe,
    PacedProducer,
    create_compacted_topic,
    create_topic,
    difficult_records,
    percentile,
    plain_records,
    send_transactions,
    sending,
)
from replication.errors import FlowError, ReplicationError, SetupError
from replication.model import Flow, Mode
from replication.state.readers import open_reader

# What the demo prints: its steps, the table of findings, and how to connect.

PERCENTILES = (0.5, 0.99, 0.999)


class Screen:
    """Prints one line for each step; a terminal shows a spinner with progress."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """Prints *text* without breaking lines longer than the screen."""
        self.console.print(text, soft_wrap=True, highlight=False)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Prints how long the block took; yields a function that shows its progress."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text) as status:
                yield lambda progress: status.update(f"{text}: {progress}")
        else:
            yield lambda _: None  # a log file needs no progress
        self.say(f"{text}: done in {time.monotonic() - started:.1f} s")


def show(screen: Screen, flow: Flow, findings: Sequence[Finding]) -> None:
    """Prints the table of findings, every difference, and the verdict in one line."""
    screen.console.print(_table(flow, findings))
    screen.say(
        "Latency is measured from the producer to the target. For payments it includes the wait "
        "for the commit of the transaction."
    )
    for finding in findings:
        if not finding.is_right:
            text = escape(finding.wrong or str(finding.report))
            screen.say(f"[red]{finding.report.topic}[/]: {text}")
    records = sum(finding.report.source_records for finding in findings)
    unrecorded = sum(finding.unrecorded for finding in findings)
    recorded = "every record" if not unrecorded else f"the {records - unrecorded} it covers by now"
    if all(finding.is_right for finding in findings):
        screen.say(
            f"[green]Equal[/]: {records} records on both sides have the same key, value, headers, "
            f"timestamp, partition and order. The offset map is right for {recorded}."
        )
    else:
        screen.say("[red]Different[/]: see above.")


def _table(flow: Flow, findings: Sequence[Finding]) -> Table:
    table = Table(title=str(flow))
    table.add_column("topic")
    for heading in (f"records on {flow.source}", f"on {flow.target}", "lag"):
        table.add_column(heading, justify="right")
    table.add_column("offset map")
    for heading in ("latency p50 ms", "p99", "p99.9"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for finding in findings:
        report = finding.report
        table.add_row(
            report.topic,
            str(report.source_records),
            str(report.target_records),
            str(max(0, report.source_records - report.target_records)),
            finding.offset_map,
            *(_ms(percentile(finding.latencies_ms, share)) for share in PERCENTILES),
            "[green]equal[/]" if finding.is_right else "[red]different[/]",
        )
    return table


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def how_to_connect(
    screen: Screen, clusters: tuple[Broker, Broker], jars: Path, config: Path, page: str
) -> None:
    """Prints, for ``--keep``, what is running, how to use it and how to stop it."""
    source, target = clusters
    tools = f"java -cp '{jars}/*' org.apache.kafka.tools"
    write = f"{tools}.ConsoleProducer --bootstrap-server {source.bootstrap} --topic orders"
    read = f"{tools}.consumer.ConsoleConsumer --bootstrap-server {target.bootstrap}"
    for line in (
        "",
        "Clusters and mirror keep running:",
        f"  {source.alias}: bootstrap.servers {source.bootstrap}",
        f"  {target.alias}: bootstrap.servers {target.bootstrap}",
        f"The mirror's page: {page}",
        "Write a record and read the copies:",
        f"  echo hello | {write}",
        f"  {read} --topic {source.alias}.orders --from-beginning",
        "The mirror's configuration and log:",
        f"  {config}",
        f"  tail -f {config.parent / 'mirror.log'}",
        f"To stop: press Ctrl-C here, or run kill {os.getpid()}",
    ):
        screen.say(escape(line))


# The demo's clusters, topics and configuration file.

FLOW = Flow("us-west", "us-east")
PARTITIONS = {"orders": 4, "payments": 2, "customers": 2, "settings": 1}
ORDERS, PAYMENTS, SETTINGS = 20_000, 2_000, 3


@dataclass(frozen=True, slots=True)
class Scene:
    """Two running clusters, a folder for everything the demo writes, and the screen."""

    folder: Path
    source: Broker
    target: Broker
    screen: Screen

    @property
    def remote_topics(self) -> dict[str, str]:
        """Upstream name -> remote name under MirrorMaker 2's default policy."""
        return {topic: f"{FLOW.source}.{topic}" for topic in PARTITIONS}

    @property
    def state_dir(self) -> str:
        """The mirror's ``state.dir``."""
        return (self.folder / "state").as_uri()

    def write_config(self) -> Path:
        """Writes the smallest configuration a user would write, in MirrorMaker 2's keys."""
        settings = {
            "clusters": [FLOW.source, FLOW.target],
            FLOW.source: {
                "bootstrap.servers": self.source.bootstrap,
                # MirrorMaker 2's default would also copy the records of aborted transactions.
                "consumer.isolation.level": "read_committed",
            },
            FLOW.target: {"bootstrap.servers": self.target.bootstrap},
            str(FLOW): {"enabled": True, "topics": list(PARTITIONS)},
            **dict.fromkeys(REPLICATION_FACTORS, 1),  # each cluster has one broker
            "state.dir": self.state_dir,
            "rest.port": 0,  # any free one, for --keep
        }
        file = self.folder / "mirror.yaml"
        file.write_text(yaml.safe_dump(settings, sort_keys=False))
        return file


def kafka_jars() -> Path:
    """Returns the folder of the Kafka brokers' and tools' jars."""
    return home() / "jars" / "kafka"


def new_folder() -> Path:
    """Creates an empty folder for one demo."""
    demos = home() / "demo"
    demos.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=demos)).resolve()


@contextmanager
def two_running_clusters(folder: Path, screen: Screen) -> Iterator[Scene]:
    """Starts both clusters and stops them at the end of the block."""
    jars = kafka_jars()
    if not list(jars.glob("*.jar")):
        raise SetupError(f"no Kafka jars in {jars}: run ./spark-submit.sh, which downloads them")
    settings = BrokerSettings(jars=jars, properties=QUICK_COMPACTION)
    with ExitStack() as stack:
        with screen.step(f"Starting two Kafka clusters, {FLOW.source} and {FLOW.target}"):
            both = two_clusters(folder, settings, aliases=(FLOW.source, FLOW.target))
            source, target = stack.enter_context(both)
        yield Scene(folder, source, target, screen)


def fill_topics(source: str) -> dict[str, int]:
    """Creates topics of four kinds; returns the committed records of each.

    ``orders`` is plain, ``payments`` transactional, ``customers`` compacted, ``settings`` tiny.
    """
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


# Runs the mirror as a user does: ``spark-submit.sh --config FILE`` in a child process.

STOP_TIMEOUT_SECONDS = 90.0  # the script itself gives up after 60 s


class MirrorProcess:
    """A running mirror; it stops when this process ends.

    Args:
        script: The checkout's ``spark-submit.sh``.
        arguments: The script's arguments.
        log: The file for its output.
    """

    def __init__(self, script: Path, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        command = [str(script), *arguments]
        with log.open("wb") as output:
            try:
                self._process = start_child(command, output)
            except OSError as error:
                raise FlowError(f"cannot start the mirror: {script}: {error.strerror}") from error
        self._watchdog = Watchdog(self._process.pid, signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The script's process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raises FlowError with the end of the log if the mirror has ended."""
        code = self._process.poll()
        if code is not None:
            raise FlowError(
                f"the mirror ended unexpectedly with exit code {code}; {log_end(self.log)}"
            )

    def run_for(self, seconds: float) -> None:
        """Waits for *seconds*; raises FlowError as soon as the mirror ends."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.check()

    def stop(self) -> None:
        """Stops the mirror as an operator would (SIGTERM); raises FlowError if that fails."""
        already = self._process.poll()
        code = self._end() if already is None else already
        if code != 0:
            raise FlowError(
                f"the mirror ended with exit code {code} on SIGTERM; {log_end(self.log)}"
            )

    def discard(self) -> None:
        """Stops the mirror if it is still running, and ignores its exit code."""
        if self._process.poll() is None:
            self._end()
        else:
            self._watchdog.dismiss()

    def _end(self) -> int:
        self._watchdog.dismiss()
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()


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
        # SIGTERM stops the demo in order, as Ctrl-C does
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with two_running_clusters(folder, Screen(console)) as scene:
                is_equal = _play(scene, keep=keep, seconds=seconds, mode=mode)
        finally:
            signal.signal(signal.SIGTERM, before)
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
    screen = scene.screen
    with screen.step(f"Filling {len(PARTITIONS)} topics on {FLOW.source}"):
        counts = fill_topics(scene.source.bootstrap)
    config = scene.write_config()
    serve = ("--serve",) if keep else ()
    options = " ".join(("--mode", mode, *serve))
    screen.say(f"Starting the mirror: ./spark-submit.sh --config {config} {options}")
    arguments = ("--config", str(config), "--flow", str(FLOW), "--mode", mode, *serve)
    log = scene.folder / "mirror.log"
    mirror = MirrorProcess(REPOSITORY / "spark-submit.sh", arguments, log)
    with ExitStack() as stack:
        stack.callback(mirror.discard)
        page = _page(mirror) if keep else ""
        if keep:
            screen.say(f"Its page: {page}")
        latencies = _replicate(scene, counts, mirror, seconds)
        if not keep:
            with screen.step("Stopping the mirror (SIGTERM)"):
                mirror.stop()
        with screen.step("Comparing both sides record by record"):
            source, target = scene.source.bootstrap, scene.target.bootstrap
            reports = compare(source, target, scene.remote_topics, keep_offsets=True)
        with (
            screen.step("Comparing the offset map with the records"),
            open_reader(StateAccess(scene.state_dir)) as state,
        ):
            findings = find(reports, latencies, state.offsets(FLOW).runs, is_running=keep)
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


def _page(mirror: MirrorProcess) -> str:
    """Waits until the mirror's log has the address of its page, and returns it."""
    deadline = time.monotonic() + STALL_SECONDS
    while not (found := SERVING.search(mirror.log.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            raise FlowError(f"no page after {STALL_SECONDS:.0f} s; {log_end(mirror.log)}")
        mirror.run_for(POLL_SECONDS)
    return found.group(1)
