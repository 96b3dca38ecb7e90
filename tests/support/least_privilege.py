"""ACLs as lines of kafka-acls, granted and taken back on clusters that forbid everything else."""

import shlex
from collections.abc import Iterable, Iterator
from typing import TypeVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from replication.config.tree import MirrorConfig
from replication.demo.brokers import Broker
from replication.topics.acls import describe_acls, needed_acls
from tests.support.acls import create_bindings, remove_bindings
from tests.support.secured import USER, Secured

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the tests themselves, and the broker
}
Strict = tuple[Secured, Secured]
"""Two clusters with an authorizer that allows nothing by itself."""

# Of the tools to Kafka's: the broker's name for the cluster is that of librdkafka.
RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
Binding = TypeVar("Binding", AclBinding, AclBindingFilter)


def grant(broker: Broker, line: str) -> None:
    """Does what a line of kafka-acls does; returns when the broker obeys it."""
    create_bindings(broker, list(_bindings(AclBinding, line)))


def revoke(broker: Broker, line: str) -> None:
    """Does what the line would do with ``--remove`` in place of ``--add``."""
    remove_bindings(broker, list(_bindings(AclBindingFilter, line)))


def line_for(operation: str, kind: str, name: str, pattern: str = "literal") -> str:
    """The line that allows the user of the tests *operation*."""
    return (
        f"kafka-acls --add --allow-principal User:{USER} --operation {operation} --{kind} {name} "
        f"--resource-pattern-type {pattern}"
    )


def grant_printed(strict: Strict, lines: Iterable[str]) -> None:
    """Grants what ``acls`` prints."""
    for line in lines:
        if line.startswith("kafka-acls"):
            on_source = strict[0].servers("SCRAM") in line
            grant(strict[0 if on_source else 1].broker, line)


def grant_needed(strict: Strict, config: MirrorConfig) -> None:
    """Grants what *config* needs, as ``acls`` prints it."""
    for alias, grants in needed_acls(config).items():
        side = strict[config.clusters.index(alias)]
        grant_printed(strict, describe_acls(grants, f"User:{USER}", side.servers("SCRAM")))


def _bindings(kind: type[Binding], line: str) -> Iterator[Binding]:
    words = shlex.split(line)
    options: dict[str, list[str]] = {}
    name = ""
    for word in words[1:]:
        if word.startswith("--"):
            options.setdefault(word, [])
            name = word
        else:
            options[name].append(word)
    resource, names = next(
        (resource, options[f"--{resource}"])
        for resource in ("topic", "group", "cluster")
        if f"--{resource}" in options
    )
    is_denial = "--deny-principal" in options
    whom = options["--deny-principal" if is_denial else "--allow-principal"][0]
    permission = AclPermissionType.DENY if is_denial else AclPermissionType.ALLOW
    pattern = ResourcePatternType[options.get("--resource-pattern-type", ["literal"])[0].upper()]
    for operation in options["--operation"]:
        snake = "".join(f"_{char}" if char.isupper() else char for char in operation).lstrip("_")
        yield kind(
            RESOURCES.get(resource, ResourceType.BROKER),
            names[0] if names else "kafka-cluster",
            pattern,
            whom,
            "*",
            AclOperation[snake.upper()],
            permission,
        )
