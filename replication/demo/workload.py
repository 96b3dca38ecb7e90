"""Test records covering every edge case a replicator must preserve, and producers for them.

Counts include only records that the cluster acknowledged and, in transactions, committed.
"""

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

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
