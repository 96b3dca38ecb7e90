"""Writes single records of a flow, one by one, while this process holds the flow's lease.

Java's producer does; see `replication/jvm/calls/SingleRecord.java`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import pack
from typing import Final

from py4j.java_gateway import JVMView

from replication.java import java_class, once
from replication.kafka.api import WRITE_TOPIC, ClientError
from replication.kafka.diagnosis import call_error
from replication.kafka.java_clients import java_errors
from replication.kafka.jvm import java_map
from replication.model import Headers, TopicPartition

TIMEOUT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class SingleRecord:
    """A record to write; without a ``timestamp_ms``, -1, it gets the present."""

    to: TopicPartition
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int = -1


def write_record(
    jvm: JVMView, alias: str, properties: Mapping[str, str], record: SingleRecord
) -> int:
    """Writes *record*, and returns its offset once it is acknowledged.

    Args:
        jvm: Has our classes.
        alias: The cluster's.
        properties: Of the producer, in Java's key space.
        record: What to write.

    Raises:
        CallError: The cluster does not take the record; whether it was written is unknown where it
            did not answer.
    """
    try:
        with java_errors(jvm):
            return int(
                once(java_class(jvm, "replication.calls.SingleRecord").write)(
                    java_map(jvm, properties),
                    record.to.topic,
                    record.to.partition,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    _encoded(record.headers),
                    int(1000 * TIMEOUT_SECONDS),
                )
            )
    except ClientError as error:
        call = WRITE_TOPIC.of(record.to.topic)
        raise call_error(alias, properties, call, error.failure) from None


def _encoded(headers: Headers) -> bytes:
    parts = [part for name, value in headers for part in (name.encode(), value)]
    encoded = [pack(">i", -1) if part is None else pack(">i", len(part)) + part for part in parts]
    return pack(">i", len(headers)) + b"".join(encoded)
