"""The demo's clusters, topics and configuration file."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml

from replication.config.home import home
from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import QUICK_COMPACTION, Broker, BrokerSettings, two_clusters
from replication.demo.compacted_topic import create_compacted_topic
from replication.demo.report import Screen
from replication.demo.workload import (
    create_topic,
    difficult_records,
    plain_records,
    send_transactions,
    sending,
)
from replication.errors import SetupError
from replication.model import Flow

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
    """Starts both clusters and stops them at the end of the block.

    Raises:
        SetupError: The jars are missing, or a broker does not start.
    """
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
