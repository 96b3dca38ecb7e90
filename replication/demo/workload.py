"""Test records covering every edge case a replicator must preserve, and producers for them.

Counts include only records that the cluster acknowledged and, in transactions, committed.
"""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from itertools import count, cycle
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from replication.demo.topic_log import TopicLog, offset_range
from replication.errors import ClusterError

Headers = Sequence[tuple[str, bytes | None]]

TIMEOUT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
HOUR_MS: Final = 3_600_000  # brokers reject timestamps more than an hour ahead
HALF_A_DAY_MS: Final = 12 * HOUR_MS  # after a day a broker that restarts forgets the producer
FIVE_YEARS_MS: Final = 5 * 365 * 86_400_000
LARGE_BYTES: Final = 200_000

KEYS: Final = (b"customer-1", None, b"\xff\x00not utf-8", b"", "schlüssel".encode())
VALUES: Final = (b"plain", None, b"", b"\xff\xfe\x00binary", "größe".encode())
HEADERS: Final[tuple[Headers, ...]] = (
    (),
    (("trace", b"1"),),
    (("twice", b"first"), ("other", None), ("twice", b"second")),
    (("empty", b""), ("raw", b"\xff\x00"), ("", b"nameless")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedRecord:
    """A record to produce. ``timestamp_ms`` 0 means now."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0


def difficult_records(
    partitions: int, *, now_ms: int, large_every: int = 500
) -> Iterator[ProducedRecord]:
    """Yields endless records that combine every kind of key, value, header and age.

    Args:
        partitions: How many partitions the records are spread over.
        now_ms: The current time; a third of the records is five years older.
        large_every: Every how many records one is large; 0 for none.
    """
    ages = (0, FIVE_YEARS_MS, 0)
    for number in itertools.count():
        # The divisors are coprime or nested, so that no two kinds always occur together.
        value = VALUES[number // 3 % len(VALUES)]
        if large_every and number % large_every == large_every - 1:
            value = bytes([number % 256]) * LARGE_BYTES
        yield ProducedRecord(
            partition=number % partitions,
            key=KEYS[number // 7 % len(KEYS)],
            value=value and value + b" %d" % number,
            headers=HEADERS[number // 2 % len(HEADERS)],
            timestamp_ms=now_ms - HOUR_MS - ages[number % len(ages)] + number,
        )


def plain_records(partitions: int, *, size_bytes: int, now_ms: int) -> Iterator[ProducedRecord]:
    """Yields endless, distinct records of one size."""
    filler = b"x" * size_bytes
    for number in itertools.count():
        value = (b"%d " % number + filler)[:size_bytes]
        key = b"key-%d" % (number % 1000)
        yield ProducedRecord(
            partition=number % partitions,
            key=key,
            value=value,
            timestamp_ms=now_ms - HALF_A_DAY_MS + number,
        )


def create_topic(
    bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Creates a topic and returns once the broker lists its partitions, which is a little later."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    try:
        admin.create_topics([new], operation_timeout=TIMEOUT_SECONDS)[topic].result(TIMEOUT_SECONDS)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(admin.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions) < partitions:
            if time.monotonic() > deadline:
                raise ClusterError(f"{bootstrap} does not list topic {topic!r}, which was created")
            time.sleep(LOOK_SECONDS)
    except KafkaException as error:
        raise ClusterError(f"cannot create topic {topic!r} on {bootstrap}: {error}") from error


class Sender:
    """A producer that raises an error if the cluster rejects any record.

    It is idempotent: it keeps the order in each partition and repeats nothing. `sending` makes one.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        linger_ms: How long to wait for a fuller batch; 0 for the lowest latency.
        transactional_id: Makes the producer transactional.
    """

    def __init__(
        self, bootstrap: str, *, linger_ms: int = 5, transactional_id: str | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._rejected: str | None = None
        self._identity = {"transactional.id": transactional_id} if transactional_id else {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "message.max.bytes": 100_000_000,  # the topic sets the limit
                "queue.buffering.max.kbytes": 262_144,
                "message.timeout.ms": int(TIMEOUT_SECONDS * 1000),
                "delivery.report.only.error": True,  # calls no Python for a delivered record
                "on_delivery": self._on_rejected,
                "log_level": 0,
                **self._identity,
            }
        )
        if transactional_id:
            self._producer.init_transactions(TIMEOUT_SECONDS)

    def send(self, topic: str, record: ProducedRecord) -> None:
        """Queues one record; waits while the queue is full.

        Raises:
            ClusterError: The cluster rejected an earlier record, or did not answer in time.
        """
        while not self._queued(topic, record):
            self._producer.poll(0.1)
        self._producer.poll(0)
        self._check()

    def _queued(self, topic: str, record: ProducedRecord) -> bool:
        headers: Any = list(
            record.headers
        )  # the type stubs forbid the null value that Kafka allows
        try:
            self._producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                timestamp=record.timestamp_ms,
                headers=headers,
            )
        except BufferError:
            return False
        return True

    def send_all(self, topic: str, records: Iterable[ProducedRecord]) -> int:
        """Sends *records*, waits until all are acknowledged, and returns their number."""
        count = 0
        for count, record in enumerate(records, 1):  # noqa: B007 - the last number is the count
            self.send(topic, record)
        self.flush()
        return count

    def flush(self) -> None:
        """Waits until all records are acknowledged."""
        self._check(self._producer.flush(TIMEOUT_SECONDS))

    def finish(self) -> None:
        """Waits until all records are acknowledged, and until readers know how transactions ended.

        A commit returns before its markers are in the partitions, and until then its records count
        as undecided. The cluster lets the next producer of an id begin only behind the markers.
        """
        self.flush()
        if self._identity:
            successor = Producer({"bootstrap.servers": self._bootstrap, **self._identity})
            successor.init_transactions(TIMEOUT_SECONDS)

    def _check(self, left: int = 0) -> None:
        if self._rejected or left:
            reason = self._rejected or f"{left} records not acknowledged"
            raise ClusterError(f"producing to {self._bootstrap}: {reason}")

    @contextlib.contextmanager
    def transaction(self, *, abort: bool = False) -> Iterator[None]:
        """Commits the records sent in the block together at its end, or aborts them."""
        self._producer.begin_transaction()
        yield
        self.flush()
        if abort:
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        else:
            self._producer.commit_transaction(TIMEOUT_SECONDS)

    def _on_rejected(self, error: KafkaError | None, record: Message) -> None:
        if error is not None:
            self._rejected = (
                f"record for {record.topic()}-{record.partition()} rejected: {error.str()}"
            )


@contextlib.contextmanager
def sending(
    bootstrap: str, *, linger_ms: int = 5, transactional_id: str | None = None
) -> Iterator[Sender]:
    """Yields a `Sender`, and finishes it at the end of the block."""
    sender = Sender(bootstrap, linger_ms=linger_ms, transactional_id=transactional_id)
    yield sender
    sender.finish()


def send_transactions(
    bootstrap: str,
    topic: str,
    records: Iterable[ProducedRecord],
    *,
    records_each: int,
    abort_every: int = 0,
) -> int:
    """Sends *records* in transactions; returns the number of committed records.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topic: Where to send the records.
        records: What to send.
        records_each: Records per transaction.
        abort_every: Every how many transactions one is aborted; 0 for none.
    """
    committed, source = 0, iter(records)
    with sending(bootstrap, transactional_id=f"workload-{topic}") as sender:
        for number in itertools.count(1):
            chunk = list(itertools.islice(source, records_each))
            if not chunk:
                break
            abort = bool(abort_every) and number % abort_every == 0
            with sender.transaction(abort=abort):
                for record in chunk:
                    sender.send(topic, record)
            committed += 0 if abort else len(chunk)
    return committed


# Measures how long records take from the producer to the target cluster.
#
# A producer stamps a value with the time of its sending; the probe reads the copies as they
# arrive.

# A value that starts with this carries the machine-wide monotonic time of its sending.
STAMP: Final = b"\x00sent"
STAMP_BYTES: Final = len(STAMP) + 8
LATENCY_SECONDS: Final = 30


def stamp(record: ProducedRecord) -> ProducedRecord:
    """Puts the current time into the record's value, where the value can hold it."""
    if not record.value:
        return record  # tombstones and empty values must stay as they are
    return replace(record, value=STAMP + time.monotonic_ns().to_bytes(8, "big") + record.value)


class LatencyProbe(threading.Thread):
    """Reads topics from their log ends and records the latency of each stamped record.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: Existing topics.
    """

    def __init__(self, bootstrap: str, topics: tuple[str, ...]) -> None:
        super().__init__(name="latency probe", daemon=True)
        self._stop_asked = threading.Event()
        self._latencies_ns: dict[str, list[int]] = {topic: [] for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "latency-probe",  # the client requires one; it never joins
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        # Assigned here and not in the thread, so that all records produced from now on count.
        self._consumer.assign(
            [
                self._end(topic, partition)
                for topic in topics
                for partition in self._partitions(topic)
            ]
        )

    def run(self) -> None:
        """Reads until `finish`; with `poll`, because `consume` waits for a full batch."""
        with closing(self._consumer) as consumer:
            while not self._stop_asked.is_set():
                record = consumer.poll(0.1)
                now_ns = time.monotonic_ns()
                value = record.value() if record and not record.error() else None
                if record and value and value.startswith(STAMP):
                    sent_ns = int.from_bytes(value[len(STAMP) : STAMP_BYTES], "big")
                    self._latencies_ns[record.topic() or ""].append(now_ns - sent_ns)

    def finish(self) -> dict[str, list[float]]:
        """Stops reading and returns the latencies of each topic in ms, ascending."""
        self._stop_asked.set()
        self.join()
        return {
            topic: sorted(latency / 1e6 for latency in latencies)
            for topic, latencies in self._latencies_ns.items()
        }

    def _partitions(self, topic: str) -> list[int]:
        metadata = self._consumer.list_topics(topic, timeout=LATENCY_SECONDS)
        return list(metadata.topics[topic].partitions)

    def _end(self, topic: str, partition: int) -> TopicPartition:
        _, end = offset_range(self._consumer, topic, partition, LATENCY_SECONDS)
        return TopicPartition(topic, partition, end)


def percentile(ascending: Sequence[float], share: float) -> float:
    """Returns the value below which *share* of all values lie; nan without values."""
    if not ascending:
        return float("nan")
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]


# Produces records at a fixed rate while the mirror runs.

RECORDS_PER_TRANSACTION: Final = 50
ABORT_EVERY: Final = 5


class PacedProducer(threading.Thread):
    """Sends records to several topics in turn, at a fixed rate, until it is stopped.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topics: Each topic and the source of its records.
        records_per_second: Total over all topics.
        transactional: Sends transactions of 50 records and aborts every fifth.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, Iterator[ProducedRecord]],
        *,
        records_per_second: float,
        transactional: bool = False,
    ) -> None:
        super().__init__(name=f"producer of {', '.join(topics)}", daemon=True)
        self.counts: Counter[str] = Counter()
        self._servers = bootstrap  # not _bootstrap, which is Thread's own
        self._topics = topics
        self._interval = 1 / records_per_second
        self._id = self.name.replace(" ", "-") if transactional else None
        self._stop_asked = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Produces until `finish`, which raises the thread's failure."""
        try:
            with sending(self._servers, linger_ms=0, transactional_id=self._id) as sender:
                self._send(sender)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = error

    def finish(self) -> Counter[str]:
        """Stops, waits for all acknowledgements, and returns the committed records per topic."""
        self._stop_asked.set()
        self.join()
        if self._failure is not None:
            raise self._failure
        return self.counts

    def _send(self, sender: Sender) -> None:
        due, topics = time.monotonic(), cycle(self._topics.items())
        for number in count(1):
            abort = number % ABORT_EVERY == 0
            sent: Counter[str] = Counter()
            with sender.transaction(abort=abort) if self._id else nullcontext():
                for _ in range(RECORDS_PER_TRANSACTION):
                    due += self._interval
                    if self._stop_asked.wait(max(0.0, due - time.monotonic())):
                        break
                    topic, records = next(topics)
                    sender.send(topic, stamp(next(records)))
                    sent[topic] += 1
            if not (abort and self._id):
                self.counts.update(sent)
            if self._stop_asked.is_set():
                return


# Creates a compacted topic whose log has gaps, to test the offset map.

ROLL_MS = 10_000
CLEAN_SECONDS = 240.0


def create_compacted_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    now_ms: int,
    rounds: int = 10,
    records_each: int = 100,
    keys: int = 150,
) -> int:
    """Creates *topic*, fills it with overlapping keys and returns once it is compacted.

    Later records are not compacted, so that a comparison with a copy is fair. The broker must run
    with ``QUICK_COMPACTION``.

    Args:
        bootstrap: ``bootstrap.servers`` of the cluster.
        topic: A name that does not exist yet.
        partitions: Each receives the same records.
        now_ms: The current time; the records are a little older.
        rounds: Closed segments per partition, in addition to the open one.
        records_each: Records per round and partition.
        keys: Distinct keys; far fewer than records.

    Returns:
        The records left in each partition.
    """
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": str(ROLL_MS // 2),
    }
    create_topic(bootstrap, topic, partitions, config)
    segments = [
        list(_segment(number, partitions, records_each, keys, now_ms - age * ROLL_MS))
        for number, age in zip(range(rounds + 1), range(rounds + 1, 0, -1), strict=True)
    ]
    with sending(bootstrap) as sender:
        for segment in segments:
            sender.send_all(topic, segment)
    left = len({record.key for closed in segments[:-1] for record in closed}) + records_each
    for partition in range(partitions):
        _await_records(bootstrap, topic, partition, left)
    _stop_compaction(bootstrap, topic)
    return left


def _segment(
    number: int, partitions: int, records_each: int, keys: int, timestamp_ms: int
) -> Iterator[ProducedRecord]:
    """Yields the records of a segment. A record ``segment.ms`` newer than its first closes it."""
    for in_segment in range(records_each):
        value = number * records_each + in_segment
        key = value * 37 % keys if in_segment % 3 else value * 7 % keys
        for partition in range(partitions):
            yield ProducedRecord(
                partition=partition,
                key=b"key-%d" % key,
                value=None if value % 11 == 0 else b"value %d" % value,
                headers=HEADERS[value % len(HEADERS)],
                timestamp_ms=timestamp_ms,
            )


def _await_records(bootstrap: str, topic: str, partition: int, expected: int) -> None:
    log = TopicLog(bootstrap, topic, "read_committed")
    deadline = time.monotonic() + CLEAN_SECONDS
    while (found := sum(1 for _ in log.records(partition))) != expected:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"compaction of {topic}-{partition} on {bootstrap} took over {CLEAN_SECONDS} s: "
                f"{found} records are left, expected {expected}; check that the log cleaner runs"
            )


def _stop_compaction(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = ConfigEntry(
        "segment.ms", str(7 * 86_400_000), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(CLEAN_SECONDS)
