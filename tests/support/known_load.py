"""The figures of a flow that runs in the test's process, and a load whose figures are known."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from replication.demo.brokers import Broker
from replication.figures.observation import Observation
from replication.flows.context import FlowContext
from replication.flows.observe.flow_observer import FlowObserver
from replication.flows.observe.observer import Observer
from replication.spark.acknowledged import ReportedFigures


@dataclass
class FlowSnapshot:
    """All observations of one flow, the newest last."""

    all: list[Observation] = field(default_factory=list)

    @property
    def last(self) -> Observation:
        """The newest one."""
        return self.all[-1]

    def figure(self, name: str, topic: str = "") -> float | None:
        """The newest figure of the flow, or of a *topic*; None if it is unknown."""
        if not self.all:
            return None
        if not topic:
            return self.last.figures.get(name)
        found = [one.figures.get(name) for one in self.last.topics if one.topic == topic]
        return found[0] if found else None


@contextmanager
def observing(context: FlowContext, interval_seconds: float = 2.0) -> Iterator[FlowSnapshot]:
    """Looks at the flow of *context* during the block."""
    observer, seen = Observer(interval_seconds, ReportedFigures(context.jvm)), FlowSnapshot()
    observer.subscribe(seen.all.append)
    observer.watch(FlowObserver(context, "replicate"))
    observer.begin()
    try:
        yield seen
    finally:
        observer.close()


@dataclass
class Load:
    """What a producer has sent: how many records, and the bytes of their keys and values."""

    records: int = 0
    bytes: int = 0


@contextmanager
def load(broker: Broker, topic: str, partitions: int, per_second: int, size: int) -> Iterator[Load]:
    """Sends records at a steady rate to the partitions of *topic* in turn during the block.

    Each has a key of 8 bytes and a value of *size* bytes. All are acknowledged at its end.
    """
    sent, over = Load(), threading.Event()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2})

    def run() -> None:
        begun = time.monotonic()
        while not over.is_set():
            while sent.records < (time.monotonic() - begun) * per_second:
                key = b"%08d" % sent.records
                producer.produce(topic, b"v" * size, key, sent.records % partitions)
                sent.records += 1
                sent.bytes += len(key) + size
            producer.poll(0)
            over.wait(0.01)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()
        producer.flush()
