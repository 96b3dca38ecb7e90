"""What is said of batches by their headers, of which Kafka's consumers do not tell.

Java asks the leaders itself; see `NewestCodecs.java` and `DamagedBatch.java` in
`replication/jvm/calls`.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from py4j.java_gateway import JavaObject, JVMView

from replication.config.clients.defaults import with_defaults
from replication.java import java_class
from replication.kafka.api import ClientError
from replication.kafka.call import READ_PARTITIONS, READ_TOPIC, Call
from replication.kafka.calls import timeout_s
from replication.kafka.diagnosis import call_error
from replication.kafka.java_errors import java_errors
from replication.kafka.jvm import java_map
from replication.model import TopicPartition


def newest_codecs(
    jvm: JVMView, properties: Mapping[str, str], topics: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Returns the codecs of the newest batches of *topics*, those of the newest first.

    Args:
        jvm: Has our classes.
        properties: Of a consumer, in Java's key space.
        topics: Their names; one without a batch, or whose leader does not tell, is absent.

    Raises:
        CallError: The cluster does not answer, or denies access.
    """
    names = json.dumps(sorted(topics))
    with _asking(jvm, properties, READ_TOPIC.of(*topics)) as (settings, timeout_ms):
        text = java_class(jvm, "replication.calls.NewestCodecs").of(settings, names, timeout_ms)
    return {topic: tuple(codecs) for topic, codecs in json.loads(text).items()}


def damaged_batch(
    jvm: JVMView, properties: Mapping[str, str], tp: TopicPartition, offset: int
) -> tuple[int, int] | None:
    """Returns the first and the last offset of the next batch of *tp* if its checksum is wrong.

    Args:
        jvm: Has our classes.
        properties: Of a consumer, in Java's key space.
        tp: The partition.
        offset: Where the batch is looked for.

    Raises:
        CallError: The cluster does not answer, or denies access.
    """
    with _asking(jvm, properties, READ_PARTITIONS.of(tp)) as (settings, timeout_ms):
        found = java_class(jvm, "replication.calls.DamagedBatch").of(
            settings, tp.topic, tp.partition, offset, timeout_ms
        )
    return None if found is None else (int(found[0]), int(found[1]))


@contextmanager
def _asking(
    jvm: JVMView, properties: Mapping[str, str], call: Call
) -> Iterator[tuple[JavaObject, int]]:
    """Gives what Java needs to make *call* as a consumer: its settings, and how long it may take.

    Raises:
        CallError: The cluster does not answer, or denies access.
    """
    settings = java_map(jvm, with_defaults("consumer", properties))
    try:
        with java_errors(jvm):
            yield settings, int(1000 * timeout_s(properties))
    except ClientError as error:
        raise call_error(None, properties, call, error.failure) from None
