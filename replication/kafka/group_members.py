"""Who is in consumer groups of one cluster, as their coordinators know it now.

A command asks it of the groups that leases are.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Final

from replication.kafka.call import DESCRIBE_GROUP, Call
from replication.kafka.calls import Calls

PATIENCE_SECONDS: Final = 3.0
"""How long a cluster may be silent: whoever asks has another answer, or says that it is unknown."""

Members = dict[str, frozenset[str]]
"""The static ids of the members, by group; a group without members has none."""


class GroupMembers(AbstractContextManager["GroupMembers"]):
    """Asks one cluster, again and again through one client: each new one would log in.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of an admin client, in Java's key space.

    Raises:
        ClusterError: No client can be made of them.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self._calls = Calls(alias, properties, "replication-members", PATIENCE_SECONDS)

    def __exit__(self, *_: object) -> None:
        """Closes the client."""
        self._calls.close()

    def of(self, groups: Collection[str]) -> Members:
        """Returns the static members of each of *groups*; nothing of one that does not exist.

        Raises:
            ClusterError: The cluster does not answer, or denies a group.
        """
        calls = self._calls
        results = calls.results(Call("describing groups"), calls.admin.members, groups)
        found = calls.require(DESCRIBE_GROUP, results, {"GROUP_ID_NOT_FOUND"})
        return {group: found.get(group, frozenset()) for group in groups}
