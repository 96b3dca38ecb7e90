"""How long a start takes until the first record is copied, and how many CPU seconds.

Two brokers and a few records; nothing else runs. The contenders take turns: this mirror with the
class archive of its set-up, without it, and MirrorMaker 2. Each is started for the first time,
stopped, and started again:

    .local/venv/bin/python -m tests.bench.start
    .local/venv/bin/python -m tests.bench.start --rounds 5 --mode drain
    .local/venv/bin/python -m tests.bench.start --partitions 1000 --only mirror mm2

Before that the brokers have their own topic of groups: it would count for whoever comes first.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from tests.bench.options import add_setting_option, assignments, new_parser, positive
from tests.bench.peers import MODES, Contender, Mirror, MirrorMaker2, Race, running
from tests.bench.program import spread
from tests.bench.usage import usage
from tests.support.local import Clusters
from tests.support.topics import fill, send
from tests.support.watched import commit

RECORDS = 100
WARM_UP = "warm-up"
WAIT_SECONDS = 300.0
POLL_SECONDS = 0.1
STARTS = ("first start", "start again")
TITLES = {
    "mirror": "this mirror",
    "no-archive": "without class archive",
    "mm2": "MirrorMaker 2",
}


@dataclass(slots=True)
class Measured:
    """Of the same start of the same contender, by round."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    stop_seconds: list[float] = field(default_factory=list)


def main() -> int:
    """Prints the table."""
    options = _options()
    load = os.getloadavg()[0]
    found: dict[tuple[str, str], Measured] = defaultdict(Measured)
    jars = home() / "jars"
    with (
        tempfile.TemporaryDirectory(prefix="starts-") as name,
        two_clusters(Path(name, "brokers"), BrokerSettings(jars=jars / "kafka")) as clusters,
    ):
        for cluster in clusters:
            fill(cluster, WARM_UP, 1, 1)
            commit(cluster, WARM_UP, WARM_UP, 1)
        contenders = _contenders(options, jars / "mm2")
        for number in range(options.rounds):
            for at, (title, contender) in enumerate(contenders.items()):
                race = _race(Path(name), clusters, number * len(contenders) + at)
                _measure(title, contender, race, clusters, options.partitions, found)
    table = Table(title=f"median of {options.rounds} (least to most); load before: {load:.1f}")
    for heading in ("", "", "s to the first record", "CPU s until then", "s to stop"):
        table.add_column(heading, justify="right" if heading else "left")
    for (title, start), measured in sorted(found.items()):
        columns = (measured.seconds, measured.cpu_seconds, measured.stop_seconds)
        table.add_row(title, start, *map(spread, columns))
    Console().print(table)
    return 0


def _measure(
    title: str,
    contender: Contender,
    race: Race,
    clusters: Clusters,
    partitions: int,
    found: dict[tuple[str, str], Measured],
) -> None:
    source, target = clusters
    fill(source, race.topic, partitions, RECORDS)
    for start in STARTS:
        measured, before = found[title, start], _copied(target.bootstrap, race, partitions)
        began = time.monotonic()
        with running(contender, race) as process:
            if start != STARTS[0]:
                send(source, race.topic, partitions, RECORDS)
            while _copied(target.bootstrap, race, partitions) <= before:
                process.check()
                if time.monotonic() - began > WAIT_SECONDS:
                    raise process.failure(f"copied nothing within {WAIT_SECONDS} s")
                time.sleep(POLL_SECONDS)
            measured.seconds.append(time.monotonic() - began)
            measured.cpu_seconds.append(usage(process.pid).cpu_seconds)
            began = time.monotonic()
            process.end()
            measured.stop_seconds.append(time.monotonic() - began)
        seconds = f"{measured.seconds[-1]:.1f} s, {measured.cpu_seconds[-1]:.1f} CPU s"
        Console(stderr=True).print(f"{title}, {start}: {seconds}")


def _copied(bootstrap: str, race: Race, partitions: int) -> int:
    with Cluster("target", {"bootstrap.servers": bootstrap}) as cluster:
        if race.remote_topic not in cluster.topic_names():
            return 0
        copies = [TopicPartition(race.remote_topic, number) for number in range(partitions)]
        return sum(cluster.log_ends(copies).values())


def _race(folder: Path, clusters: Clusters, number: int) -> Race:
    return Race(
        folder=folder / f"race-{number}",
        source=f"s{number}",
        source_bootstrap=clusters[0].bootstrap,
        target_bootstrap=clusters[1].bootstrap,
        topic=f"start-{number}",
    )


def _contenders(options: argparse.Namespace, mm2: Path) -> dict[str, Contender]:
    base = Path(shutil.which("java") or "java").resolve().parents[1] / "lib/server/classes.jsa"
    no_archive = ("--driver-java-options", f"-XX:SharedArchiveFile={base}")  # the last one counts
    settings = {"emit.checkpoints.interval.seconds": "5", **assignments(options.set)}
    contenders: dict[str, Contender] = {
        "mirror": Mirror(mode=options.mode, settings=settings),
        "no-archive": Mirror(mode=options.mode, settings=settings, spark=no_archive),
        "mm2": MirrorMaker2(jars=mm2, settings={}),
    }
    return {TITLES[name]: contenders[name] for name in options.only}


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=MODES, default="realtime", help="of the mirror")
    parser.add_argument("--partitions", type=positive, default=8, help="of the topic")
    parser.add_argument("--only", nargs="+", choices=TITLES, default=list(TITLES))
    add_setting_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
