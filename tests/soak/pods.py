"""What a run on Kubernetes needs beside the cluster: brokers that pods reach, a load, a verdict.

    python -m tests.soak.pods brokers FOLDER      two clusters, on ports 9092 and 9093
    python -m tests.soak.pods fill TOPIC COUNT    a topic with so many records
    python -m tests.soak.pods load SECONDS        the soak's producers, bursts included
    python -m tests.soak.pods latency SECONDS     of the load's plain records, while it runs
    python -m tests.soak.pods judge STATE_DIR     exit code 1 if a record or the map is wrong

All topics whose names begin with ``soak-`` are judged. See conf/deploy/kubernetes/by-hand.md.
"""

import argparse
import signal
import sys
import time
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from threading import Event

from replication.config.home import home
from replication.config.state_access import StateAccess
from replication.demo.brokers import QUICK_COMPACTION, Broker, BrokerSettings, running
from replication.demo.workload import LatencyProbe, create_topic, percentile, plain_records, sending
from replication.errors import ReplicationError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.state.readers import open_reader
from tests.soak.load import PLAIN, RECORD_BYTES, Load, patient_cluster
from tests.soak.verdict import Verdict, judge_topic
from tests.support.mirror_files import FLOW
from tests.support.topics import now_ms

PORTS = (9092, 9093)  # the network policy lets pods reach these
CONTROLLER_PORTS = (19092, 19093)
PARTITIONS = 4
BURST_SECONDS = 60.0
LOOK_SECONDS = 0.5
PAUSE_SECONDS = 5.0
"""Longer times without a copied record are printed."""


def say(text: str) -> None:
    """Prints a line with the time of day."""
    print(f"{datetime.now(timezone.utc):%H:%M:%S} {text}", flush=True)  # noqa: T201


def ended() -> Event:
    """Set when this program is asked to end."""
    event = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: event.set())
    return event


def run_brokers(host: str, folder: Path) -> None:
    """Two clusters on all addresses of this machine, which tell clients the address *host*."""
    is_ended = ended()
    both = [
        _broker(alias, host, folder, ports)
        for alias, *ports in zip((FLOW.source, FLOW.target), PORTS, CONTROLLER_PORTS, strict=True)
    ]
    with running(*both):
        say(f"the brokers answer: {', '.join(_bootstraps(host))}")
        is_ended.wait()


def _broker(alias: str, host: str, folder: Path, ports: list[int]) -> Broker:
    port, controller = ports
    properties = {
        **QUICK_COMPACTION,
        "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
    }
    settings = BrokerSettings(jars=home() / "jars" / "kafka", properties=properties)
    return Broker(alias, folder / alias, settings, ports=iter(ports).__next__)


def fill(source: str, topic: str, count: int) -> None:
    """Creates a topic with *count* records."""
    create_topic(source, topic, PARTITIONS)
    records = plain_records(PARTITIONS, size_bytes=RECORD_BYTES, now_ms=now_ms())
    with sending(source) as sender:
        sender.send_all(topic, islice(records, count))


def run_load(source: str, target: str, seconds: float) -> None:
    """Produces for so long, a burst now and then; prints how long nothing was copied."""
    is_ended = ended()
    load, cluster = Load(source), patient_cluster(FLOW.target, target)
    load.fill()
    began = moved = burst = time.monotonic()
    last = -1
    try:
        while (now := time.monotonic()) < began + seconds and not is_ended.is_set():
            load.attend()
            if now > burst + BURST_SECONDS:
                load.burst()
                burst = now
            copied = _copied(load, cluster)
            if copied != last:
                if now > moved + PAUSE_SECONDS:
                    say(f"nothing was copied for {now - moved:.1f} s; now {copied}")
                last, moved = copied, now
            is_ended.wait(LOOK_SECONDS)
    finally:
        load.finish()
    say(f"the load has ended after {time.monotonic() - began:.0f} s; copied so far: {last}")


def print_latency(target: str, seconds: float) -> None:
    """Reads the copies of the load's plain records for so long; prints how old they arrive."""
    remote = f"{FLOW.source}.{PLAIN}"
    probe = LatencyProbe(target, (remote,))
    probe.start()
    ended().wait(seconds)
    latencies = probe.finish()[remote]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    texts = [f"{name} {percentile(latencies, share):.1f} ms" for name, share in shares.items()]
    say(f"latency of {len(latencies)} records: {', '.join(texts)}")


def _copied(load: Load, target: Cluster) -> int:
    remote = [
        TopicPartition(f"{FLOW.source}.{topic.name}", number)
        for topic in load.topics.values()
        for number in range(topic.partitions)
    ]
    return sum(target.log_ends(remote).values())


def judge(source: str, target: str, state_dir: str) -> bool:
    """Compares every topic of the load and the map with its records; whether all is right."""
    verdict = Verdict()
    names = patient_cluster(FLOW.source, source).topic_names()
    with open_reader(StateAccess(state_dir)) as state:
        for topic in sorted(name for name in names if name.startswith("soak-")):
            judge_topic((source, target), topic, state, verdict)
        verdict.events.update(row["kind"] for row in state.rows("events", FLOW))
        for row in sorted(state.rows("leases", FLOW), key=lambda row: (row["epoch"], row["since"])):
            ended_how = "released" if row["released"] else "held"
            say(f"lease {row['epoch']}, {ended_how}, {row['host']}")
    for problem in verdict.problems:
        say(f"PROBLEM {problem}")
    say(
        f"records {verdict.records}, lost {verdict.lost}, repeated {verdict.repeated}, not of the "
        f"source {verdict.foreign}, partitions out of order {verdict.disordered}, wrong entries of "
        f"the map {verdict.wrong}, events {dict(verdict.events) or 'none'}"
    )
    return not verdict.problems


def _bootstraps(host: str) -> tuple[str, str]:
    return f"{host}:{PORTS[0]}", f"{host}:{PORTS[1]}"


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The parsed options. Invalid ones end the program with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.pods", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--host", default="10.88.0.1", help="the address by which pods reach this machine"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("brokers").add_argument("folder", type=Path)
    filling = verbs.add_parser("fill")
    filling.add_argument("topic")
    filling.add_argument("count", type=int)
    verbs.add_parser("load").add_argument("seconds", type=float)
    verbs.add_parser("latency").add_argument("seconds", type=float)
    verbs.add_parser("judge").add_argument("state_dir")
    return parser.parse_args(arguments)


def main() -> int:
    """Does what the command line says; returns 1 if something is wrong."""
    options = parsed(sys.argv[1:])
    source, target = _bootstraps(options.host)
    is_right = True
    try:
        match options.verb:
            case "brokers":
                run_brokers(options.host, options.folder)
            case "fill":
                fill(source, options.topic, options.count)
            case "load":
                run_load(source, target, options.seconds)
            case "latency":
                print_latency(target, options.seconds)
            case _:
                is_right = judge(source, target, options.state_dir)
    except ReplicationError as error:
        say(f"PROBLEM {error}")
        is_right = False
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
