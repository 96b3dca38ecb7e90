"""Options of Spark's Kafka source and sink for one flow. Plain dicts, tested without a JVM."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replication.config.client_keys import with_defaults
from replication.model import Flow, TopicPartition

# What clients may have on its way to a cluster that is far away.
#
# One fetch of a partition is on its way at a time, and a producer has five requests on their way
# to a broker. So what passes in a round trip is the most that a partition gets: a megabyte each
# 100 ms is 10 MB/s, however fast the network is.

READ_BYTES_PER_SECOND: Final = 134_217_728
"""What a fetch of a partition is large enough for. A fetch also takes the time of its transfer, so
that half of this is reached where the network is not faster than this."""

WRITTEN_BYTES_PER_SECOND: Final = 67_108_864
"""The same for the batches of a partition that are on their way."""

REQUESTS_IN_FLIGHT: Final = 5
"""What an idempotent producer has on its way to a broker, at most."""

DEFAULT_LIMIT: Final = 1_048_588
"""``max.message.bytes`` of a topic, by default."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """How long a small request takes, in seconds, to the source and to the target."""

    source: float = 0.0
    target: float = 0.0

    @property
    def fetch_bytes(self) -> int:
        """What a fetch should bring of one partition, so that it does not wait for the distance."""
        return int(READ_BYTES_PER_SECOND * self.source)

    @property
    def unanswered_bytes(self) -> int:
        """What is sent while the first answer is on its way."""
        return int(WRITTEN_BYTES_PER_SECOND * self.target)

    def batch_bytes(self, limits: Collection[int]) -> int:
        """Returns what a batch should have, so that those on their way fill the distance.

        Args:
            limits: The bytes of a batch that the topics take. A larger ``batch.size`` than the
                interceptor's room for one (``producer/BatchRoom``) would mean a batch a round trip.
        """
        least = min(limits, default=DEFAULT_LIMIT)
        return min(least - least // 16 - 61, self.unanswered_bytes // REQUESTS_IN_FLIGHT)


INTERCEPTOR: Final = "replication.producer.PreserveTimestamps"

CARRIER: Final = b"\x8forg"
"""Begins the key of a record on its way to the interceptor, which takes the record's timestamp and
offset from there and puts the original key back. In a header, of which Spark makes several objects,
they cost a sixth more CPU for records of 100 bytes."""

OWNER_ONLY: Final = "replication.producer.OwnerOnly"
"""The interceptor that stops a producer whose process has lost the lease."""


def unacknowledged(spark: SparkSession, flow: Flow, slots: int) -> int:
    """Returns the records that executors have sent for *flow* and that have no acknowledgement yet.

    For sessions without the plugin of `replication.spark.acknowledged`. One task per slot reads the
    count of its executor. An executor that runs no such task, or is lost, is not counted:
    `settled_log_ends` also waits until the log end stops moving.

    Args:
        spark: The session.
        flow: Whose records.
        slots: The tasks that the session can run at once.
    """
    slots = max(1, slots)
    call = F.expr(f"cast(java_method('{INTERCEPTOR}', 'unacknowledged', '{flow}') as bigint)")
    rows = spark.range(0, slots, 1, slots).select(call.alias("records")).collect()
    return max((row["records"] for row in rows), default=0)


DELAY = "spark.sql.streaming.pollingDelay"
"""How long an idle query of micro-batches waits before it asks the source for new records again.
Spark's default is 10 ms, whatever the question costs: with 31 idle partitions the mirror used a
fifth of a core for it, and the source answered 70 times a second."""

LEAST_MS = 10
"""Spark's own: a sparse topic's records wait half of it on average."""

FEW_PARTITIONS_MS = 25
"""The pause of 25 to 100 partitions; below 25, a millisecond for each of them."""

_OURS = "spark.replication.pollingDelay"
"""The pause that an earlier call set: another one may follow, for other partitions."""

PARTITIONS_PER_MS = 4
"""The question is about all partitions, so that its cost grows with them."""


def polling_delay_ms(partitions: int) -> int:
    few = min(partitions, FEW_PARTITIONS_MS)
    return max(LEAST_MS, few, partitions // PARTITIONS_PER_MS)


def limit_polling(spark: SparkSession, partitions: int) -> None:
    """Sets the pause of each query that *spark* starts later; an operator's own value stays."""
    is_set = spark._jsparkSession.sessionState().conf().contains(DELAY)  # noqa: SLF001
    if not is_set or spark.conf.get(DELAY) == spark.conf.get(_OURS, None):
        delay = f"{polling_delay_ms(partitions)}ms"
        spark.conf.set(DELAY, delay)
        spark.conf.set(_OURS, delay)


BUFFER_BYTES: Final = 16_777_216
"""``buffer.memory``. The garbage collector copies what waits in it: with 64 MiB a record took a
sixth more CPU."""

MOST_BUFFER_BYTES: Final = 67_108_864
"""It grows up to this for batches or topics that are larger: the client rejects a record that does
not fit into it, and a topic's limit counts compressed bytes."""

BATCH_BYTES: Final = (16_384, 262_144)
"""``batch.size``, the least and the most. Larger requests cost less CPU per record, above all the
target's: a request has one batch of a partition. But each partition that has something to send
takes a whole batch of the buffer."""

FILLED_AT_ONCE: Final = 16
"""Partitions whose batches become full at the same time, at most: a fetch has a long run of one
partition after that of another, however many there are."""

ROOM_WAIT_S: Final = 0.02
"""How long records may wait for room in the buffer where each partition has one: several of them
share the room of a batch then, one after the other."""

ACKNOWLEDGED_S: Final = 0.002
"""How long a batch holds its room near the target, until all replicas have it."""

FETCH_BYTES: Final = (65_536, 1_048_576)
"""``max.partition.fetch.bytes``, the least and the most."""

FETCHED_BYTES: Final = 33_554_432
"""What all tasks of a query fetch at once. Each has a consumer of its own, which holds the records
of one fetch, their bytes, and the bytes of the next one: 1000 tasks that fetched a megabyte each
filled a heap of 2 GB."""

LEAST_FETCH_BYTES: Final = 262_144
"""``fetch.max.bytes`` of the shared source, the least: a smaller request costs too much. Eight
tasks that each read from 16 brokers have as much."""

POLL_RECORDS: Final = (100, 2000)
"""``max.poll.records``, the least and the most."""

POLLED_RECORDS: Final = 128_000
"""What all tasks of a query hold as records: compressed, a fetch may have many."""

BOUNDED_READS: Final = {
    # Spark asks where a partition ends after each fetch. The client has then sent its next fetch on
    # the same connection, and a broker answers a connection's requests one after the other: at the
    # end of the log each task would wait for 500 ms, before it passes on the first record.
    "fetch.max.wait.ms": "1",
}
"""Of reads up to offsets that the log has reached, so that no request has to wait for records."""

NEAR: Final = RoundTrips()
"""Both clusters are in the network of the executors."""

OWNED_BY_SPARK: Final = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "value.deserializer",
        "value.serializer",
    }
)


def named(consumer: Mapping[str, str], flow: Flow) -> dict[str, str]:
    """Returns *consumer* with the client id of what reads for *flow*, unless it has one."""
    return {"client.id": f"{flow.slug}-replication-consumer", **consumer}


def client_id(flow: Flow) -> str:
    """Returns the client id of the data producer, for quotas, JMX and the interceptor's counts."""
    return f"{flow.slug}-replication-producer"


def producer_client_id(producer: Mapping[str, str], flow: Flow) -> str:
    """Returns the data producer's client id; *producer* may set another one."""
    return producer.get("client.id", client_id(flow))


def source_options(
    consumer: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    *,
    is_bounded: bool = True,
    tasks: int = 1,
) -> dict[str, str]:
    """Returns the source's options: exactly the partitions of *starts*, each from its offset.

    Args:
        consumer: Effective client properties of the source, in Kafka's own key space.
        starts: The first offset to read, for every partition.
        is_bounded: Tasks read what is there already; in Real-Time Mode they wait for records.
        tasks: How many of them run at once.
    """
    ours = {
        **(BOUNDED_READS if is_bounded else {}),
        "max.partition.fetch.bytes": str(_share(FETCHED_BYTES, tasks, FETCH_BYTES)),
        "max.poll.records": str(_share(POLLED_RECORDS, tasks, POLL_RECORDS)),
    }
    numbers: dict[str, list[int]] = {}
    for tp in sorted(starts):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    return {
        **_kafka(with_defaults("consumer", {**ours, **consumer})),
        "assign": json.dumps(numbers),
        "startingOffsets": offsets_json(starts),
        "includeHeaders": "true",
        "failOnDataLoss": "true",  # records that are gone must fail the query, not log a line
    }


def sharing_options(
    consumer: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    tasks: int,
    brokers: int,
    distance: RoundTrips = NEAR,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> dict[str, str]:
    """Returns the options of the shared source, which reads the partitions of *starts*.

    It sets ``max.poll.records`` itself. Memory has about two answers for each task and broker.

    Args:
        consumer: Effective client properties of the source, in Kafka's own key space.
        starts: The first offset to read, for every partition.
        tasks: How many share the partitions; each has one consumer.
        brokers: How many the source has; a consumer holds the answers of each.
        distance: A fetch may bring more of one partition from far away, within the same memory.
        epochs: Of leaders that had everything before *starts*, as far as they are known.
    """
    answering = min(max(1, brokers), -(-len(starts) // max(1, tasks)))
    fetched = max(LEAST_FETCH_BYTES, FETCHED_BYTES // max(1, tasks * answering))
    ours = {
        "fetch.max.bytes": str(fetched),
        "max.partition.fetch.bytes": str(min(max(FETCH_BYTES[1], distance.fetch_bytes), fetched)),
    }
    return {
        **_kafka(with_defaults("consumer", {**ours, **consumer})),
        "startingOffsets": offsets_json(starts),
        "startingEpochs": offsets_json(epochs or {}),
        "tasks": str(tasks),
    }


def sink_options(
    producer: Mapping[str, str],
    flow: Flow,
    *,
    intercepted: bool,
    limits: Collection[int] = (),
    tasks: int = 1,
    distance: RoundTrips = NEAR,
) -> dict[str, str]:
    """Returns the sink's options; values of *producer* override the defaults.

    Args:
        producer: Effective client properties of the target, in Kafka's own key space.
        flow: Whose records the sink writes.
        intercepted: Whether the interceptors are loaded.
        limits: The bytes of a batch that the topics take. The interceptor keeps to each topic's;
            without it no batch is larger than the smallest, because Kafka's client would split it
            endlessly (KAFKA-8350). Room for the largest is in ``buffer.memory``.
        tasks: How many run at once, or the partitions that they share.
        distance: Batches are larger, and there is room for more of them, if the target is far away.
    """
    batch_bytes, buffer_bytes = _sizes(tasks, distance, limits)
    ours = {"client.id": client_id(flow), "batch.size": str(batch_bytes)}
    properties = with_defaults("producer", {**ours, **producer})
    sizes = [int(properties["batch.size"]), *limits]
    room = max(buffer_bytes, 2 * max(sizes))
    properties.setdefault("buffer.memory", str(min(MOST_BUFFER_BYTES, room)))
    if not intercepted:
        properties["batch.size"] = str(min(sizes))
    options = _kafka(properties)
    if intercepted:
        options["kafka.interceptor.classes"] = f"{INTERCEPTOR},{OWNER_ONLY}"
    return options


def _sizes(partitions: int, distance: RoundTrips, limits: Collection[int]) -> tuple[int, int]:
    """Returns the bytes of a batch and of the buffer for *partitions*.

    Full batches are large, and single records find room.
    """
    partitions, (least, most) = max(1, partitions), BATCH_BYTES
    turns = max(1, int(ROOM_WAIT_S / max(ACKNOWLEDGED_S, distance.target)))
    at_once = -(-partitions // turns)  # the others find room when these are acknowledged
    filled = max(BUFFER_BYTES // 4, distance.unanswered_bytes)
    full = filled // min(partitions, FILLED_AT_ONCE)
    single = MOST_BUFFER_BYTES // at_once
    batch = max(least, min(full, single, max(most, distance.batch_bytes(limits))))
    return batch, max(BUFFER_BYTES, 2 * filled, at_once * batch)


def client_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Returns what *options* of a source or sink say to Kafka's client, in its own key space."""
    prefix = "kafka."
    return {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }


def limits_text(limits: Mapping[str, int]) -> str:
    """Limits of topics as the interceptor reads them: ``,*=131072,A.orders=60000,``.

    Args:
        limits: For each remote topic the bytes of a batch that it takes. The most frequent limit is
            that of all topics not named, so that thousands of topics make a short text.
    """
    usual = [("*", limit) for limit, _ in Counter(limits.values()).most_common(1)]
    own = [(topic, limit) for topic, limit in limits.items() if ("*", limit) not in usual]
    return "".join(f",{topic}={limit}" for topic, limit in [*usual, *own]) + ","


def offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Returns *offsets* in Spark's form: ``{"topic": {"0": 12}}``."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics)


def parse_offsets(found: str | Mapping[str, Any] | None) -> dict[TopicPartition, int]:
    """Returns the inverse of `offsets_json`, whether *found* is its text or was parsed already.

    Nothing for None, which is the start of a first batch.
    """
    topics = json.loads(found) if found and isinstance(found, str) else found
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in (topics or {}).items()
        for partition, offset in offsets.items()
    }


def _share(whole: int, tasks: int, bounds: tuple[int, int]) -> int:
    """Returns a task's part of *whole*, within *bounds*."""
    least, most = bounds
    return min(most, max(least, whole // max(1, tasks)))


def _kafka(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{key}": value for key, value in properties.items() if key not in OWNED_BY_SPARK}
