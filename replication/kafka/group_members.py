"""Who is in consumer groups of one cluster, as their coordinators know it now.

A command asks it of the groups that leases are. Without security no JVM is needed for it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from replication.kafka.calls import Calls
from replication.kafka.clients import is_secured
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm

NO_GROUP: Final = frozenset({"GROUP_ID_NOT_FOUND"})
PATIENCE_SECONDS: Final = 3.0
"""How long a cluster may be silent: whoever asks has another answer, or says that it is unknown."""

Members = dict[str, frozenset[str]]
"""The static ids of the members, by group; a group without members has none."""


def group_members(alias: str, properties: Mapping[str, str], groups: Collection[str]) -> Members:
    """Returns the static members of each of *groups*; nothing of one that does not exist.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of an admin client, in Java's key space.
        groups: The groups' ids.

    Raises:
        ClusterError: The cluster does not answer, or denies a group.
    """
    if is_secured(properties):
        with Groups(shared_jvm(), alias, properties) as java:
            return {group: frozenset(java.instances(group)) for group in groups}
    calls = Calls(alias, properties, "replication-members", PATIENCE_SECONDS)
    try:
        results = calls.results(
            "describing groups",
            lambda keys, s: calls.admin.describe_consumer_groups(list(keys), request_timeout=s),
            groups,
        )
        found = calls.require("describing group", _without_ids(results), NO_GROUP)
    finally:
        calls.close()
    return {group: found.get(group, frozenset()) for group in groups}


def _without_ids(results: Mapping[str, Any]) -> dict[str, frozenset[str] | KafkaError]:
    return {
        group: found if isinstance(found, KafkaError) else frozenset(_instances(found.members))
        for group, found in results.items()
    }


def _instances(members: Iterable[Any]) -> Iterable[str]:
    return (member.group_instance_id or member.member_id for member in members)
