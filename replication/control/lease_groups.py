"""What the group of a lease says of the process that is known to have taken it: does it live?

The table ``leases`` and the status topic keep the last word of a process that was killed. The
coordinator of the group expels a member that was silent for its session of a few seconds: one that
was killed, paused or cut off from the target.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from replication.config.tree import FlowConfig
from replication.errors import ReplicationError
from replication.kafka.consumer_groups import GroupMembers
from replication.kafka.diagnosis import CallError
from replication.model import Flow
from replication.state.claim import LeaseName

Answer = Literal["member", "other", "nobody", "unknown"]
"""The process is in the group; another one is; the group has no member; the group was not asked."""


@dataclass(frozen=True, slots=True)
class LeaseGroup:
    """The group of one lease, as its cluster describes it.

    Args:
        group: Its id.
        cluster: The alias of the flow's target, which keeps it.
        members: The static ids of its members; None if they are unknown.
        reason: Why they are unknown.
        denied: The error, if they are unknown because the user may not describe the group.
    """

    group: str
    cluster: str
    members: frozenset[str] | None
    reason: str = ""
    denied: CallError | None = None

    def of(self, instance: str | None) -> Answer:
        """Returns what the group says of the process with the static id *instance*.

        One whose id is not known is taken for any member.
        """
        if self.members is None:
            return "unknown"
        if not self.members:
            return "nobody"
        return "member" if instance is None or instance in self.members else "other"


class LeaseGroups(AbstractContextManager["LeaseGroups"]):
    """Asks the groups of leases, of each cluster through a client that is kept for the block.

    It is for one thread at a time.
    """

    def __init__(self) -> None:
        self._clients: dict[str, GroupMembers] = {}

    def __exit__(self, *_: object) -> None:
        """Closes the clients."""
        while self._clients:
            self._clients.popitem()[1].__exit__()

    def ask(self, configs: Iterable[FlowConfig], part: str = "") -> dict[Flow, LeaseGroup]:
        """Asks the groups of the leases of *configs*, those of all clusters at once."""
        by_target: defaultdict[str, list[FlowConfig]] = defaultdict(list)
        for config in configs:
            by_target[config.target.alias].append(config)
        if not by_target:
            return {}
        with ThreadPoolExecutor(len(by_target), "witness") as pool:
            answers = pool.map(lambda some: self._ask(some, part), by_target.values())
        return {flow: witness for answer in answers for flow, witness in answer.items()}

    def _ask(self, configs: Sequence[FlowConfig], part: str) -> Mapping[Flow, LeaseGroup]:
        alias = configs[0].target.alias
        groups = {config.flow: LeaseName(config.flow, part).group for config in configs}
        try:
            if (client := self._clients.get(alias)) is None:
                client = self._clients[alias] = GroupMembers(alias, configs[0].target.admin)
            members = client.of(list(groups.values()))
        except ReplicationError as error:
            denied = error if isinstance(error, CallError) and error.is_denied else None
            if denied is None and (broken := self._clients.pop(alias, None)):
                broken.__exit__()  # the next call begins anew
            return {
                flow: LeaseGroup(group, alias, None, str(error), denied)
                for flow, group in groups.items()
            }
        return {flow: LeaseGroup(group, alias, members[group]) for flow, group in groups.items()}
