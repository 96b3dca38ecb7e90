"""Membership of a consumer group whose leader names one member the owner.

The group decides which process holds a lease. `replication/jvm/calls/Ownership.java` says how.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final, Literal, cast

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError

from replication.kafka.jvm import java_map

MemberState = Literal["joining", "waiting", "owner", "lost"]

SESSION_SECONDS: Final = 10
"""The coordinator expels a member that was silent for so long."""

REBALANCE_SECONDS: Final = 12
"""A rebalance waits for its members for so long: more than a session, so that a member that has
died is expelled and not named the owner again."""

SILENCE_SECONDS: Final = 20
"""An owner that got no answer for so long stops being one. Longer than a rebalance, which a member
that has died may hold up: no heartbeat is answered meanwhile."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process in the group.

    Args:
        instance: A name that a restart of the process keeps, so that it replaces its predecessor.
        description: What the other members are shown.
        producer: client.id of the producers in this JVM that only an owner may send with.
    """

    instance: str
    description: str
    producer: str = ""


class Ownership(AbstractContextManager["Ownership"]):
    """This process's membership of *group*; it joins in the background.

    Args:
        jvm: py4j's view of the JVM that the membership lives in, and ends with.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        group: The group's id.
        member: This process.
    """

    def __init__(
        self, jvm: JVMView, properties: Mapping[str, str], group: str, member: Member
    ) -> None:
        java = java_map(jvm, properties)
        self._java = jvm.replication.calls.Ownership(
            java,
            group,
            member.instance,
            member.description,
            member.producer,
            SESSION_SECONDS * 1000,
            REBALANCE_SECONDS * 1000,
            SILENCE_SECONDS * 1000,
        )

    def __exit__(self, *_: object) -> None:
        """Leaves the group. The object is of no use afterwards."""
        with suppress(Py4JError):  # the membership has ended with the JVM
            self._java.leave()

    @property
    def state(self) -> MemberState:
        """Whether this member is the owner by now. ``lost`` is final; `reason` says why."""
        try:
            return cast("MemberState", self._java.state())
        except Py4JError:
            return "lost"

    @property
    def generation(self) -> int:
        """The group's generation in which this member became the owner; 1 is the group's first."""
        return int(self._java.generation())

    @property
    def join_seconds(self) -> float:
        """How long the group took to name its owner, from this member's request to join on."""
        return float(self._java.joinSeconds())

    @property
    def owner(self) -> str:
        """The description of the present owner; empty while none is known."""
        return str(self._java.owner())

    @property
    def reason(self) -> str:
        """Why the lease was lost, or why the group cannot be joined."""
        try:
            return str(self._java.reason())
        except Py4JError:
            return "the driver's JVM does not answer"
