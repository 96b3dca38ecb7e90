"""Who is in consumer groups of one cluster, as their coordinators know it now.

A command asks it of the groups that leases are.
"""

from collections.abc import Collection, Mapping
from typing import Final

from replication.kafka.call import DESCRIBE_GROUP, Call
from replication.kafka.calls import Calls

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
    calls = Calls(alias, properties, "replication-members", PATIENCE_SECONDS)
    try:
        results = calls.results(Call("describing groups"), calls.admin.members, groups)
        found = calls.require(DESCRIBE_GROUP, results, {"GROUP_ID_NOT_FOUND"})
    finally:
        calls.close()
    return {group: found.get(group, frozenset()) for group in groups}
