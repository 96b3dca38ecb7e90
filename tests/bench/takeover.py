"""How long a warm standby takes from kill -9 of the owner to its first record.

Two processes are started as a user starts them, with ``--standby``, and records come all the time.
When the standby is ready, the owner is killed with all its processes; the standby is the owner of
the next round. Both run on this machine. As two machines they have lock files of their own, so that
the lease's group decides; as one machine they share them:

    .local/venv/bin/python -m tests.bench.takeover
    .local/venv/bin/python -m tests.bench.takeover --machines 1 --partitions 1000
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from rich.console import Console

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.topic_log import log_ends
from replication.demo.workload import PacedProducer, create_topic
from replication.model import Flow
from tests.bench.options import add_setting_option, assignments, new_parser
from tests.bench.usage import usage
from tests.support.local import REPOSITORY, Clusters
from tests.support.process_tree import kill_tree
from tests.support.running_process import RunningProcess
from tests.support.topics import plain
from tests.support.two_machines import write_two_configs

TOPIC, FLOW = "takeover", Flow("A", "B")
POLL_SECONDS = 0.05
WAIT_SECONDS = 300.0
CALM_SECONDS = 5.0
"""A standby that has just become ready is left alone for so long."""

STEPS = ("lease_handover", "lease_held", "mode_chosen", "generation_started")


def main() -> int:
    """Prints a line for each round, and the median."""
    options = _options()
    console = Console(soft_wrap=True)
    console.print(f"load before: {os.getloadavg()[0]:.1f}")
    jars = home() / "jars" / "kafka"
    with (
        tempfile.TemporaryDirectory(prefix="takeover-") as name,
        two_clusters(Path(name, "brokers"), BrokerSettings(jars=jars)) as clusters,
    ):
        rounds = _Rounds(options, Path(name), clusters)
        seconds = rounds.run(console)
    spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
    console.print(
        f"{options.machines} machine(s), {options.partitions} partitions: median "
        f"{statistics.median(seconds):.1f} s ({spread}) in {len(seconds)} rounds"
    )
    return 0


class _Rounds:
    """One flow that several processes take over from each other."""

    def __init__(self, options: argparse.Namespace, folder: Path, clusters: Clusters) -> None:
        self._options, self._folder, self._clusters = options, folder, clusters
        create_topic(clusters[0].bootstrap, TOPIC, options.partitions)
        configs = write_two_configs(folder, clusters, TOPIC, assignments(options.set), FLOW)
        self._configs = configs if options.machines == 2 else (configs[0], configs[0])

    def run(self, console: Console) -> list[float]:
        """Returns the seconds of each round."""
        found = []
        feeder = PacedProducer(
            self._clusters[0].bootstrap,
            {TOPIC: plain(self._options.partitions)},
            records_per_second=self._options.rate,
        )
        feeder.start()
        with ExitStack() as stack:
            owner, _ = self._start(stack, 0)
            self._wait(owner, lambda: self._copied() > 0)
            for number in range(1, self._options.rounds + 1):
                standby, log = self._start(stack, number)
                text = partial(log.read_text, errors="replace")
                seconds, told = self._take_over(owner, standby, text)
                console.print(f"round {number}: {seconds:.1f} s; {told}")
                found.append(seconds)
                owner = standby
            feeder.finish()
        return found

    def _take_over(
        self, owner: RunningProcess, standby: RunningProcess, text: Callable[[], str]
    ) -> tuple[float, str]:
        """Kills *owner*; returns how long *standby* took, and what it had used and done."""
        self._wait(standby, lambda: "event=standby_ready" in text())
        time.sleep(CALM_SECONDS)
        idle = usage(standby.pid)
        kill_tree(owner.pid)
        killed, wall, before = time.monotonic(), time.time(), self._copied()
        self._wait(standby, lambda: self._copied() > before)
        used = f"{idle.cpu_seconds:.1f} CPU s and {idle.peak_rss_bytes / 1e6:.0f} MB"
        return time.monotonic() - killed, f"it had used {used}; {_steps(text(), wall)}"

    def _start(self, stack: ExitStack, number: int) -> tuple[RunningProcess, Path]:
        script = str(REPOSITORY / "spark-submit.sh")
        log = self._folder / f"log-{number}"
        command = [script, "--config", str(self._configs[number % 2]), "--standby"]
        return stack.enter_context(RunningProcess(f"process {number}", command, log)), log

    def _wait(self, process: RunningProcess, condition: Callable[[], object]) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            process.check()
            if time.monotonic() > until:
                raise process.failure(f"nothing within {WAIT_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def _copied(self) -> int:
        remote = f"{FLOW.source}.{TOPIC}"
        return log_ends(self._clusters[1].bootstrap, [remote])[remote]


def _steps(text: str, killed: float) -> str:
    """When the steps of the takeover came, in seconds after the kill, by the lines of a log."""
    found = []
    for line in text.splitlines():
        time_, _, rest = line.partition("Z ")
        event = re.search(r"event=(\w+)", rest)
        if event and event[1] in STEPS and "part=" not in rest.replace("part=records", ""):
            at = datetime.fromisoformat(time_).replace(tzinfo=timezone.utc).timestamp()
            found.append(f"{event[1]} {at - killed:.1f}")
    return ", ".join(found)


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--machines", type=int, choices=(1, 2), default=2)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rate", type=float, default=500.0, help="records per second")
    add_setting_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
