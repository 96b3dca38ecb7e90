"""Options of Spark's Kafka source and sink for one flow. Plain dicts, tested without a JVM."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from replication.config.clients.defaults import with_defaults
from replication.model import Flow, TopicPartition
from replication.spark.distance import RoundTrips
from replication.spark.interceptor import INTERCEPTOR, OWNER_ONLY

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
    return {
        **_kafka(with_defaults("consumer", {**ours, **consumer})),
        "assign": json.dumps(_by_topic_partitions(starts)),
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

    Args:
        partitions: How many may have records at the same time.
        distance: How long a batch is on its way.
        limits: The bytes of a batch that the topics take.
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


def _by_topic_partitions(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _kafka(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{key}": value for key, value in properties.items() if key not in OWNED_BY_SPARK}
