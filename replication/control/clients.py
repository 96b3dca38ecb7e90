"""Asks Java's Kafka client whether it takes the properties of each flow. Connects to nothing."""

from collections.abc import Iterator, Mapping
from typing import Final

from replication.config.clients.java_keys import Role
from replication.config.tree import FlowConfig, MirrorConfig
from replication.kafka.client_check import rejected_properties
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


def client_problems(config: MirrorConfig) -> list[str]:
    """What Java's clients reject, one line for each property and cluster.

    Raises:
        SetupError: There is no JVM, or no Kafka client for it.
    """
    return rejected_properties(_clients(config))


def _clients(config: MirrorConfig) -> Iterator[Client]:
    for flow in config.flows:
        yield from _clients_of(flow)
    for pair in config.heartbeats:
        yield pair.alias, "producer", {**_PRODUCER, **pair.producer}
        yield pair.alias, "admin", pair.admin


def _clients_of(flow: FlowConfig) -> Iterator[Client]:
    source, target = flow.source, flow.target
    yield source.alias, "consumer", {**_CONSUMER, **source.consumer}
    yield source.alias, "admin", source.admin
    yield target.alias, "producer", {**_PRODUCER, **target.producer}
    yield target.alias, "admin", target.admin
