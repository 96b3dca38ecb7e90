"""The Kafka clients that the flows of a file open, for the check of their properties."""

from collections.abc import Iterator, Mapping
from typing import Final

from replication.config.clients.java_keys import Role
from replication.config.tree import FlowConfig, MirrorConfig
from replication.spark.kafka_options import CONSUMER_DEFAULTS, PRODUCER_DEFAULTS

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArray"
_PRODUCER: Final = {
    **PRODUCER_DEFAULTS,
    "key.serializer": f"{_BYTES}Serializer",
    "value.serializer": f"{_BYTES}Serializer",
}
_CONSUMER: Final = {
    **CONSUMER_DEFAULTS,
    "key.deserializer": f"{_BYTES}Deserializer",
    "value.deserializer": f"{_BYTES}Deserializer",
}

Client = tuple[str, Role, Mapping[str, str]]
"""A cluster's alias, the kind of client, and its properties."""


def clients_of(config: MirrorConfig) -> Iterator[Client]:
    """Every client of every flow and of every pair with heartbeats."""
    for flow in config.flows:
        yield from _clients_of_flow(flow)
    for pair in config.heartbeats:
        yield pair.alias, "producer", {**_PRODUCER, **pair.producer}
        yield pair.alias, "admin", pair.admin


def _clients_of_flow(flow: FlowConfig) -> Iterator[Client]:
    source, target = flow.source, flow.target
    yield source.alias, "consumer", {**_CONSUMER, **source.consumer}
    yield source.alias, "admin", source.admin
    yield target.alias, "producer", {**_PRODUCER, **target.producer}
    yield target.alias, "admin", target.admin
