"""Milliseconds from producing a record on the source to seeing its copy on the target.

Producer and consumer run in separate processes, so that neither waits for the other's interpreter
lock. Each value starts with the time it was sent; both processes read the clock of one machine.
"""

import multiprocessing
import time
from array import array
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from replication.demo.topic_log import offset_range
from replication.demo.workload import percentile
from tests.bench.usage import Usage

WARM_UP_SECONDS = 60  # the contender's JVM still compiles what copies single records
PATIENCE_SECONDS = 30.0
QUEUE_SECONDS = 0.001
NUMBER_BYTES = 8
SMALLEST_BYTES = 2 * NUMBER_BYTES
# The shares of records whose latencies are kept, for the plots.
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)


class LatencyError(Exception):
    """The measurement itself failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollInterval:
    """What is produced. After a warm-up, *seconds* of it count."""

    partitions: int
    size_bytes: int
    records_per_second: float
    seconds: float

    @property
    def warm_up_records(self) -> int:
        """Records that do not count."""
        return int(WARM_UP_SECONDS * self.records_per_second)

    @property
    def records_in_a_row(self) -> int:
        """Those of a millisecond: they go to one partition, as producers without keys do it.

        Up to 1000 records a second, each goes to the partition after that of the one before.
        """
        return max(1, int(self.records_per_second / 1000))

    @property
    def records(self) -> int:
        """All records, including those of the warm-up."""
        return self.warm_up_records + int(self.seconds * self.records_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Percentiles in ms over *records* copies; ``lost`` records were produced but never seen.

    ``rate`` is in records per second, as asked for; ``produced_per_second`` is what the producer
    reached, since it shares the machine. ``curve`` holds pairs of a share and the latency in ms
    below which that share lies. ``used`` is what the contender used over ``wall_seconds``, the
    warm-up included.
    """

    rate: float
    produced_per_second: float
    records: int
    lost: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    curve: tuple[tuple[float, float], ...]
    used: Usage
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Copies:
    """When each record was produced and when its copy was seen, in ns since 1970.

    They are in the order in which they were seen. Ten minutes of 20 000 records a second take
    200 MB.
    """

    produced_ns: "array[int]" = field(default_factory=lambda: array("q"))
    seen_ns: "array[int]" = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.seen_ns)

    def __getitem__(self, part: slice) -> "Copies":
        return Copies(self.produced_ns[part], self.seen_ns[part])

    def ascending_ms(self) -> list[float]:
        """The latencies, sorted."""
        pairs = zip(self.produced_ns, self.seen_ns, strict=True)
        return sorted((seen - produced) / 1e6 for produced, seen in pairs)

    def produced_per_second(self) -> float:
        """The rate at which they were produced; nan for fewer than two."""
        if len(self) < 2:
            return float("nan")
        return (len(self) - 1) * 1e9 / (max(self.produced_ns) - min(self.produced_ns))


def copies_seen(source: str, target: str, topics: tuple[str, str], pace: PollInterval) -> Copies:
    """Produces at the given pace and returns the records that count, as their copies were seen.

    Args:
        source: ``bootstrap.servers`` of the source.
        target: ``bootstrap.servers`` of the target.
        topics: On the source, and the copy; both exist and are equal before this.
        pace: How much and how fast.
    """
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe(duplex=False)
    consumer = processes.Process(
        target=_consume, args=(target, topics[1], pace, there), daemon=True
    )
    producer = processes.Process(target=_produce, args=(source, topics[0], pace), daemon=True)
    try:
        consumer.start()
        there.close()  # otherwise the end of the consumer would go unnoticed
        _receive(here, PATIENCE_SECONDS)
        producer.start()
        seen: Copies = _receive(here, pace.records / pace.records_per_second * 2 + 60)
    finally:
        for process in (consumer, producer):
            if process.pid is not None:
                process.terminate()
                process.join()
    return seen


def summary(copies: Copies, pace: PollInterval, used: Usage, wall_seconds: float) -> Latency:
    """The percentiles of *copies*."""
    ascending = copies.ascending_ms()
    return Latency(
        rate=pace.records_per_second,
        produced_per_second=copies.produced_per_second(),
        records=len(ascending),
        lost=pace.records - pace.warm_up_records - len(ascending),
        p50_ms=percentile(ascending, 0.5),
        p90_ms=percentile(ascending, 0.9),
        p99_ms=percentile(ascending, 0.99),
        p999_ms=percentile(ascending, 0.999),
        max_ms=ascending[-1] if ascending else float("nan"),
        curve=tuple(
            (share, percentile(ascending, share))
            for share in SHARES
            if len(ascending) * (1 - share) >= 1  # else it is the greatest one
        ),
        used=used,
        wall_seconds=wall_seconds,
    )


def _receive(pipe: Connection, timeout_seconds: float) -> Any:  # noqa: ANN401 - what was sent
    if not pipe.poll(timeout_seconds):
        raise LatencyError(f"the latency consumer sent nothing for {timeout_seconds:g} s")
    try:
        return pipe.recv()
    except EOFError as error:
        raise LatencyError("the latency consumer failed; its error is above") from error


def _produce(bootstrap: str, topic: str, pace: PollInterval) -> None:
    row = pace.records_in_a_row
    linger_ms = 0 if row == 1 else 1  # with a request for each record, the producer fills a core
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "log_level": 0})
    filler = bytes(pace.size_bytes - SMALLEST_BYTES)
    began = time.monotonic()
    for number in range(pace.records):
        wait = began + number / pace.records_per_second - time.monotonic()
        if wait > 0:
            time.sleep(wait)  # the pace
        stamp = time.time_ns().to_bytes(NUMBER_BYTES, "big")
        value = stamp + number.to_bytes(NUMBER_BYTES, "big") + filler
        while not _queued(producer, topic, value, number // row % pace.partitions):
            producer.poll(QUEUE_SECONDS)  # the stamp stays: a queue that is full is latency, too
        producer.poll(0)
    producer.flush(PATIENCE_SECONDS)


def _queued(producer: Producer, topic: str, value: bytes, partition: int) -> bool:
    try:
        producer.produce(topic, value, partition=partition)
    except BufferError:
        return False
    return True


def _consume(bootstrap: str, topic: str, pace: PollInterval, pipe: Connection) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench-latency",  # the client requires one; it never joins
        "enable.auto.commit": False,
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        # the log ends are read here, so every record produced from now on is seen
        consumer.assign([_end(consumer, topic, number) for number in range(pace.partitions)])
        pipe.send("ready")
        pipe.send(_seen(consumer, pace))


def _end(consumer: Consumer, topic: str, partition: int) -> TopicPartition:
    _, end = offset_range(consumer, topic, partition, PATIENCE_SECONDS)
    return TopicPartition(topic, partition, end)


def _seen(consumer: Consumer, pace: PollInterval) -> Copies:
    seen = Copies()
    for _ in range(pace.records):
        record = consumer.poll(PATIENCE_SECONDS)  # consume() would wait for a full batch
        now_ns = time.time_ns()
        if record is None:
            break  # the rest is lost
        value = record.value()
        if record.error() or value is None:
            raise LatencyError(f"reading the copies: {record.error()}")
        if int.from_bytes(value[NUMBER_BYTES:SMALLEST_BYTES], "big") >= pace.warm_up_records:
            seen.produced_ns.append(int.from_bytes(value[:NUMBER_BYTES], "big"))
            seen.seen_ns.append(now_ns)
    return seen
