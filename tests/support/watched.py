"""A mirror that runs as a user runs it, its clusters, and a Prometheus with impatient rules."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from replication.demo.brokers import Broker, free_port
from replication.demo.play import MirrorProcess
from replication.figures.registry import PREFIX
from replication.model import Flow
from tests.support.commands import QUICK_START
from tests.support.driver import running
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.prometheus import Prometheus, hasty, scraping
from tests.support.waiting import wait_until

SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Watched:
    """One flow, whose topics begin with its source's alias."""

    flow: Flow
    file: Path
    source: Broker
    target: Broker
    port: int
    mirror: MirrorProcess
    prometheus: Prometheus
    since: float = field(default_factory=time.time)

    def topic(self, name: str) -> str:
        """A topic of the flow."""
        return f"{self.flow.source}-{name}"

    def remote(self, topic: str) -> str:
        """Its copy."""
        return f"{self.flow.source}.{topic}"

    def figure(self, name: str, **labels: str) -> float | None:
        """A figure as Prometheus has it; None if it is unknown."""
        selected = ",".join(f'{label}="{value}"' for label, value in labels.items())
        return self.prometheus.value(f"{PREFIX}{name}{{{selected}}}")

    def until(self, condition: Callable[[], object], seconds: float = SECONDS) -> None:
        """Waits for *condition*; fails at once if the mirror ends."""

        def look() -> object:
            self.mirror.check()
            return condition()

        wait_until(look, seconds)

    def until_fires(self, alert: str, seconds: float = SECONDS, **labels: str) -> None:
        """Waits until *alert* fires for a series with these *labels*."""
        self.until(lambda: self.prometheus.fires(alert, **labels), seconds)

    def until_clear(self, alert: str, seconds: float = SECONDS, **labels: str) -> None:
        """Waits until it does not fire any more."""
        self.until(lambda: not self.prometheus.fires(alert, **labels), seconds)

    def until_copied(self, topic: str, records: int) -> None:
        """Waits until all *records* of *topic* are on the target."""
        self.until(lambda: self.figure("records_total", topic=topic) == records)
        self.until(lambda: self.figure("lag_records", topic=topic) == 0)


@contextmanager
def watched(
    folder: Path,
    clusters: Clusters,
    more: Mapping[str, object],
    spark: Sequence[str] = QUICK_START,
) -> Iterator[Watched]:
    """Runs a mirror for the block.

    Args:
        folder: For all files.
        clusters: Source and target.
        more: Further entries of the configuration.
        spark: ``--``, and arguments of spark-submit.
    """
    flow, port = unique_flow(), free_port()
    settings = {"metrics.port": port, "refresh.topics.interval.seconds": 2, **more}
    file = write_config(folder, clusters, f"{flow.source}-.*", settings, flow)
    with (
        scraping(folder, port, rules_file=hasty(folder)) as prometheus,
        running(file, port, spark=spark) as mirror,
    ):
        yield Watched(flow, file, *clusters, port, mirror, prometheus)


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    """Commits for a group without members."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@contextmanager
def member(broker: Broker, group: str, topic: str) -> Iterator[None]:
    """A member of *group* that has been given the partitions of *topic*, during the block."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])

    def is_member() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    try:
        wait_until(is_member, SECONDS)
        yield
    finally:
        consumer.close()
