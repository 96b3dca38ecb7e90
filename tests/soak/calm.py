"""Runs a healthy mirror for a while, and checks that Prometheus pages nobody for it.

    python -m tests.soak.calm SECONDS

In this order, and all beside a steady load in both directions: a first start with a backlog of
hours, three restarts (by `stop`, SIGTERM and SIGKILL), a move back, a planned stop. One Prometheus
scrapes the driver, another one `serve`, each with the rules of conf/monitoring. Exit code 1 if an
alert was ever firing. Prints what was pending, too.
"""

import argparse
import itertools
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer

from replication.config.home import home
from replication.demo.brokers import Broker, BrokerSettings, free_port, two_clusters
from replication.demo.workload import create_topic
from replication.errors import ReplicationError
from replication.figures.registry import PREFIX
from tests.support.commands import QUICK_START, replication, start_mirror
from tests.support.driver import page
from tests.support.known_load import load
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.program import end_on_signals, new_console, new_folder_name
from tests.support.prometheus import Prometheus, scraping
from tests.support.running_process import ProcessError
from tests.support.serve_process import serve_process
from tests.support.topics import now_ms
from tests.support.waiting import Late, wait_until

if TYPE_CHECKING:
    from replication.demo.play import MirrorProcess

SHORTEST = 1500
"""Alerts of lag wait for five minutes, and two things here last longer."""

SCRAPE_SECONDS = 15
START_SECONDS = 120.0
BACKLOG, LIVE, BACK = "calm-backlog", "calm-live", "calm-back"
PARTITIONS = 2
BACKLOG_RECORDS = 60_000
BACKLOG_AGE_MS = 12 * 3_600_000
PER_SECOND = 20
DAY_MS = 86_400_000
SPARK = (*QUICK_START, "--driver-memory", "1g")

Say = Callable[[str], None]


class Operator:
    """Starts and ends the mirror of a file.

    Args:
        file: The file.
        port: Where the driver answers.
        say: Prints a line.
    """

    def __init__(self, file: Path, port: int, say: Say) -> None:
        self.say = say
        self._file, self._port = file, port
        self._numbers = itertools.count(1)
        self._mirror: MirrorProcess | None = None

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        log = self._file.with_name(f"mirror-{next(self._numbers)}.log")
        began = time.monotonic()
        self._mirror = mirror = start_mirror(self._file, log, spark=SPARK)

        def is_ready() -> bool:
            mirror.check()
            return page(self._port, "/readyz")[0] == 200

        wait_until(is_ready, START_SECONDS)
        self.say(f"  ready after {time.monotonic() - began:.0f} s")

    def run_for(self, what: str, seconds: float) -> None:
        """Lets it run; it must not end."""
        self.say(f"{what}: {seconds:.0f} s")
        if self._mirror is not None:
            self._mirror.run_for(seconds)

    def command(self, name: str, *arguments: str) -> None:
        """Gives a command, which must succeed."""
        done = replication(name, self._file, *arguments)
        if done.returncode:
            raise ReplicationError(f"{name}: exit code {done.returncode}: {done.stderr}")

    def stop(self) -> None:
        """Stops it by the command, and lets it end by itself."""
        self.command("stop", "--reason", "planned")
        if (mirror := self._mirror) is not None:
            wait_until(lambda: mirror.exit_code is not None, START_SECONDS)
            mirror.stop()  # has ended, well

    def terminate(self) -> None:
        """Stops it by SIGTERM, if it runs; it must end well."""
        if self._mirror is not None:
            self._mirror.stop()

    def kill(self) -> None:
        """Kills it; whoever watches it starts it again at once."""
        if self._mirror is not None:
            kill_tree(self._mirror.pid)
            self.discard()

    def discard(self) -> None:
        """Ends it, if it runs, however it ends."""
        if self._mirror is not None:
            self._mirror.discard()


@contextmanager
def _reading(broker: Broker) -> Iterator[None]:
    """A group that reads and commits during the block."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "calm-group"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([BACKLOG, LIVE])
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            consumer.poll(0.2)
        consumer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _fill(broker: Broker) -> None:
    """Sends the backlog, whose records are half a day old."""
    create_topic(broker.bootstrap, BACKLOG, PARTITIONS)
    producer, first = Producer({"bootstrap.servers": broker.bootstrap}), now_ms() - BACKLOG_AGE_MS
    for number in range(BACKLOG_RECORDS):
        place = number % PARTITIONS
        producer.produce(BACKLOG, b"v" * 100, b"%08d" % number, place, timestamp=first + number)
        producer.poll(0)
    producer.flush()


def _played(operator: Operator, seconds: int) -> None:
    """Does all of it in *seconds*, and what the starts take beyond that."""
    until = time.monotonic() + seconds
    operator.start()
    operator.run_for("first start with a backlog", seconds / 4 + 90)
    for how in (operator.stop, operator.terminate, operator.kill):
        how()
        operator.start()
        operator.run_for("restarted, healthy load", seconds / 20)
    operator.stop()
    move = ("--flow", str(FLOW), "--topic", BACKLOG, "--to", "earliest", "--execute")
    operator.command("move-position", *move)
    operator.start()
    operator.run_for("moved back", seconds / 4 + 30)
    operator.stop()
    operator.say(f"planned stop: {seconds / 8:.0f} s")
    time.sleep(seconds / 8)
    operator.start()
    operator.run_for("healthy load", max(60.0, until - time.monotonic()))


def _problems(prometheus: Prometheus, say: Say, seconds: float, down: float) -> list[str]:
    """Returns what fired, and what Prometheus has not seen; *down* is how long nothing answers."""
    span = f"[{seconds:.0f}s:{SCRAPE_SECONDS}s]"

    def lasted(expression: str) -> float:
        found = prometheus.query(f"max(count_over_time(({expression}){span}))")
        return SCRAPE_SECONDS * float(found[0]["value"][1]) if found else 0.0

    for one in prometheus.query(f'count_over_time(ALERTS{{alertstate="pending"}}{span})'):
        labels = {k: v for k, v in one["metric"].items() if k not in {"__name__", "alertstate"}}
        say(f"  pending for {SCRAPE_SECONDS * float(one['value'][1]):.0f} s in all: {labels}")
    fired = prometheus.query(f'count_over_time(ALERTS{{alertstate="firing"}}{span})')
    found = [f"fired: {one['metric']}" for one in fired]
    back = f'{PREFIX}partitions{{state="catching-up"}} > 0'
    played = {
        "lag of more than five minutes": (f"{PREFIX}lag_seconds > 300", 600.0),
        "partitions that catch up": (back, 600.0),
        "a move": (f'{PREFIX}given_up_offsets_total{{cause="moved"}} > 0', 60.0),
        "a target that is down": ("up == 0", down),
    }
    for what, (expression, least) in played.items():
        say(f"  {what}: {(had := lasted(expression)):.0f} s")
        if had < least:
            found.append(f"it has seen {what} for {had:.0f} s, and not for {least:.0f} s")
    return found


def _calm(folder: Path, seconds: int, say: Say) -> list[str]:
    """Runs everything; returns what was wrong."""
    kept = {"log.retention.ms": str(7 * DAY_MS)}
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=256, properties=kept)
    port, rest = free_port(), free_port()
    slow = BACKLOG_RECORDS / (seconds / 4)
    settings = {
        f"{FLOW.target}->{FLOW.source}": {"enabled": True, "topics": [BACK]},
        "groups": ["calm-.*"],
        "heartbeats.replication.enabled": True,
        "metrics.port": port,
        "replication.limit.topics": [f"{BACKLOG} {slow:.0f}records/s", f"{LIVE} 1000records/s"],
        "replication.source": "auto",
        "rest.port": rest,
        "sync.group.offsets.enabled": True,
    }
    with two_clusters(folder / "brokers", brokers) as clusters:
        source, target = clusters
        _fill(source)
        create_topic(source.bootstrap, LIVE, PARTITIONS)
        create_topic(target.bootstrap, BACK, PARTITIONS)
        file = write_config(folder, clusters, "calm-(backlog|live)", settings)
        operator, began = Operator(file, port, say), time.time()
        places = [folder / name for name in ("of-driver", "of-serve")]
        for place in places:
            place.mkdir()
        with (
            load(source, LIVE, PARTITIONS, PER_SECOND, 100),
            load(target, BACK, PARTITIONS, PER_SECOND, 100),
            _reading(source),
            serve_process(file, folder / "serve.log"),
            scraping(places[0], port, seconds=SCRAPE_SECONDS) as of_driver,
            scraping(places[1], rest, seconds=SCRAPE_SECONDS) as of_serve,
        ):
            try:
                _played(operator, seconds)
            finally:
                operator.discard()
            problems = []
            for name, prometheus, down in (("driver", of_driver, 120.0), ("serve", of_serve, 0.0)):
                say(f"Prometheus of the {name}:")
                found = _problems(prometheus, say, time.time() - began, down)
                problems += [f"Prometheus of the {name}: {one}" for one in found]
    return problems


def main() -> int:
    """Returns 0 if nobody was called, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.calm", description=__doc__)
    parser.add_argument("seconds", type=int, help=f"how long it lasts; at least {SHORTEST}")
    seconds = parser.parse_args().seconds
    if seconds < SHORTEST:
        parser.error(f"seconds: must be {SHORTEST} or more, got {seconds}")
    end_on_signals()
    console, folder = new_console(), new_folder_name("soak")
    folder.mkdir(parents=True)

    def say(text: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False)

    say(f"{seconds} s; logs: {folder}")
    try:
        problems = _calm(folder, seconds, say)
    except KeyboardInterrupt:
        return 130
    except (ReplicationError, ProcessError, Late) as error:
        problems = [f"it ended early: {error}"]
    for problem in problems:
        say(f"PROBLEM {problem}")
    if not problems:
        shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
