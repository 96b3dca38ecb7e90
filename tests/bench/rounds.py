"""What an idle mirror pays for something that it does all the time, in percent of one core.

It runs once with that and once without; the difference of its CPU time is the cost. That is a round
of checkpoints and group sync each second, or the operator's view. Both runs copy the same topic
first, and they take turns, because other programs may run beside them:

    .local/venv/bin/python -m tests.bench.rounds                                    # two minutes
    .local/venv/bin/python -m tests.bench.rounds --partitions 1000 --groups 100
    .local/venv/bin/python -m tests.bench.rounds --of view --turns 5
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, sending
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import kafka_jars, open_jvm
from replication.model import Committed, TopicPartition
from tests.bench.many import broker_heap_mb, raise_file_limit
from tests.bench.options import add_setting_option, assignments, new_parser, positive
from tests.bench.peers import MODES, Mirror, Race, running
from tests.bench.usage import usage
from tests.support.local import Clusters

TOPIC = "numbers"
ROUNDS: Mapping[str, str] = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}
NO_ROUNDS: Mapping[str, str] = {"emit.checkpoints.enabled": "false"}
NO_VIEW: Mapping[str, str] = {"status.publish.interval.seconds": "0"}
WITHOUT_AND_WITH = {"rounds": (NO_ROUNDS, ROUNDS), "view": (NO_VIEW, {})}
TITLES = ("without", "with")
START_SECONDS = 300.0
POLL_SECONDS = 0.5


def main() -> int:
    """Prints the table."""
    options = _options()
    raise_file_limit(options.partitions)
    heap_mb = broker_heap_mb(options.partitions)
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=heap_mb)
    with (
        tempfile.TemporaryDirectory(prefix="rounds-") as name,
        two_clusters(Path(name, "brokers"), brokers) as clusters,
    ):
        _fill(clusters, options.partitions, options.groups)
        pairs = [
            [
                _cores(clusters, Path(name, f"{title}{turn}"), settings, options)
                for title, settings in zip(TITLES, WITHOUT_AND_WITH[options.of], strict=True)
            ]
            for turn in range(options.turns)
        ]
    load = f"load of the machine {os.getloadavg()[0]:.0f}"
    sizes = f"{options.partitions} partitions, {options.groups} groups"
    table = Table(title=f"CPU of an idle mirror, % of a core; {sizes}; {load}")
    for heading in (options.of, *TITLES, "difference"):
        table.add_column(heading, justify="right")
    for turn, (without, used) in enumerate(pairs, 1):
        table.add_row(f"turn {turn}", *_percent(without, used, used - without))
    middle = [median(found) for found in zip(*pairs, strict=True)]
    table.add_row("median", *_percent(*middle, median(used - without for without, used in pairs)))
    Console().print(table)
    return 0


def _percent(*cores: float) -> list[str]:
    return [f"{100 * used:.2f}" for used in cores]


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--of", choices=WITHOUT_AND_WITH, default="rounds", help="what costs")
    parser.add_argument("--turns", type=positive, default=1, help="of both, one after the other")
    parser.add_argument("--partitions", type=positive, default=31, help="of one topic")
    parser.add_argument("--groups", type=positive, default=3, help="with offsets in all of them")
    parser.add_argument("--seconds", type=positive, default=60, help="of each measurement")
    parser.add_argument("--warm-up", type=positive, default=60, help="before that, for the JVM")
    parser.add_argument("--mode", choices=MODES[:2], default="microbatch", help="of the mirror")
    add_setting_option(parser)
    return parser.parse_args()


def _fill(clusters: Clusters, partitions: int, groups: int) -> None:
    source, _ = clusters
    create_topic(source.bootstrap, TOPIC, partitions)
    with sending(source.bootstrap) as sender:
        now_ms = time.time_ns() // 1_000_000
        records = plain_records(partitions, size_bytes=100, now_ms=now_ms)
        for _ in range(10):  # a broker does not take those of thousands of partitions in time
            sender.send_all(TOPIC, islice(records, 10 * partitions))
    positions = {TopicPartition(TOPIC, number): Committed(50) for number in range(partitions)}
    with (
        open_jvm(kafka_jars()) as jvm,
        Groups(jvm, "A", {"bootstrap.servers": source.bootstrap}) as client,
    ):
        for number in range(groups):
            client.commit(f"group-{number}", positions)


def _cores(
    clusters: Clusters, folder: Path, settings: Mapping[str, str], options: argparse.Namespace
) -> float:
    """CPU seconds per second of an idle mirror."""
    source, target = clusters
    race = Race(
        folder=folder,
        source=folder.name,
        source_bootstrap=source.bootstrap,
        target_bootstrap=target.bootstrap,
        topic=TOPIC,
    )
    further = assignments(options.set)
    settings = {"emit.heartbeats.enabled": "false", **settings, **further}
    mirror = Mirror(mode=options.mode, settings=settings)
    with running(mirror, race) as process:
        expected = 100 * options.partitions
        deadline = time.monotonic() + START_SECONDS
        while log_ends(target.bootstrap, [race.remote_topic]).get(race.remote_topic, 0) < expected:
            process.check()
            assert time.monotonic() < deadline, f"nothing was copied; see {folder}"
            time.sleep(POLL_SECONDS)
        time.sleep(options.warm_up)  # the JVM compiles what it runs often
        before, began = usage(process.pid), time.monotonic()
        time.sleep(options.seconds)
        process.check()
        return (usage(process.pid) - before).cpu_seconds / (time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
