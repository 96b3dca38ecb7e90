"""The Kafka clients that the flows of a file open: their properties, addresses and users."""

from collections.abc import Iterator, Mapping
from typing import Final

from replication.config.client_keys import Role, principal_of, with_defaults
from replication.config.tree import MirrorConfig
from replication.mm2.policy import CustomClass

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArray"
_PRODUCER: Final = {
    "key.serializer": f"{_BYTES}Serializer",
    "value.serializer": f"{_BYTES}Serializer",
}
_CONSUMER: Final = {
    "key.deserializer": f"{_BYTES}Deserializer",
    "value.deserializer": f"{_BYTES}Deserializer",
}

Client = tuple[str, Role, Mapping[str, str]]
"""A cluster's alias, the kind of client, and its properties."""


def clients_of(config: MirrorConfig) -> Iterator[Client]:
    """Yields every client of every flow and of every pair with heartbeats."""
    for flow in config.flows:
        source, target = flow.source, flow.target
        consumer, producer = {**_CONSUMER, **source.consumer}, {**_PRODUCER, **target.producer}
        yield source.alias, "consumer", with_defaults("consumer", consumer)
        yield source.alias, "admin", with_defaults("admin", source.admin)
        yield target.alias, "producer", with_defaults("producer", producer)
        yield target.alias, "admin", with_defaults("admin", target.admin)
    for pair in config.heartbeats:
        yield pair.alias, "producer", with_defaults("producer", {**_PRODUCER, **pair.producer})
        yield pair.alias, "admin", with_defaults("admin", pair.admin)


def custom_classes(config: MirrorConfig) -> tuple[CustomClass, ...]:
    """Returns the user's classes that any flow of the file asks."""
    flows = (*config.flows, *config.other_flows)
    return tuple(custom for flow in flows for custom in flow.custom_classes)


def servers_of(config: MirrorConfig) -> dict[str, str]:
    """Returns the addresses of each cluster that the file's flows and heartbeats use, by alias."""
    return {alias: admin["bootstrap.servers"] for alias, admin in admins_of(config).items()}


def principals_of(config: MirrorConfig) -> dict[str, str]:
    """Returns the users that log in by name, by alias."""
    found = {alias: principal_of(admin) for alias, admin in admins_of(config).items()}
    return {alias: principal for alias, principal in found.items() if principal}


def admins_of(config: MirrorConfig) -> dict[str, Mapping[str, str]]:
    """Returns the properties of the admin client of each such cluster, by alias."""
    admins = {pair.alias: pair.admin for pair in config.heartbeats}
    for flow in config.flows:
        admins |= {cluster.alias: cluster.admin for cluster in (flow.source, flow.target)}
    return admins
