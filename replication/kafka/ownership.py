"""Membership of a consumer group whose leader names one member the owner.

The group decides which process holds a lease. `replication/jvm/calls/Ownership.java` says how.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import astuple, dataclass
from typing import Final, Literal, cast

from py4j.java_gateway import JVMView

from replication.java import JVM_GONE, java_class
from replication.kafka.jvm import java_map

MemberState = Literal["joining", "waiting", "owner", "lost"]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things may take in the group, in seconds. `state/lease` says what must hold.

    Args:
        session: The coordinator expels a member that was silent for so long.
        rebalance: A rebalance waits for its members for so long: a session at least, so that a
            member that has died is expelled and not named the owner again.
        silence: An owner that got no answer for so long stops being one. Longer than a rebalance,
            which a member that has died may hold up: no heartbeat is answered meanwhile.
        alone: The same where the group has no other member. One that comes later waits longer.
        heartbeat: From one heartbeat to the next.
        turn: From one look of a member at what the group says to the next.
    """

    session: float
    rebalance: float
    silence: float
    alone: float
    heartbeat: float
    turn: float

    @property
    def staleness(self) -> float:
        """How old the last answer of a healthy owner may seem to it.

        It counts from a turn before the heartbeat was sent, and the answer a turn or two later.
        """
        return 2 * self.heartbeat + 3 * self.turn


STEADY: Final = LeaseTimes(session=10, rebalance=12, silence=20, alone=20, heartbeat=2, turn=1)
"""Of a process that nobody stands by for: outages of the target of this length end nothing."""

QUICK: Final = LeaseTimes(session=6, rebalance=7, silence=9, alone=20, heartbeat=1, turn=0.25)
"""Of processes that are started with ``--standby``. No broker takes a shorter session by default
(``group.min.session.timeout.ms``)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process in the group.

    Args:
        instance: A name that a restart of the process keeps, so that it replaces its predecessor.
        description: What the other members are shown.
        producer: client.id of the producers in this JVM that only an owner may send with.
        is_quick: Whether another process stands by, or may.
    """

    instance: str
    description: str
    producer: str = ""
    is_quick: bool = False

    @property
    def times(self) -> LeaseTimes:
        """How long the coordinator and this member wait for each other."""
        return QUICK if self.is_quick else STEADY


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
        times = member.times
        self._java = java_class(jvm, "replication.calls.Ownership")(
            java_map(jvm, properties),
            group,
            member.instance,
            member.description,
            member.producer,
            *(round(1000 * seconds) for seconds in astuple(times)),
        )

    def __exit__(self, *_: object) -> None:
        """Leaves the group. The object is of no use afterwards."""
        with suppress(*JVM_GONE):  # the membership has ended with the JVM
            self._java.leave()

    @property
    def state(self) -> MemberState:
        """Whether this member is the owner by now. ``lost`` is final; `reason` says why."""
        try:
            return cast("MemberState", self._java.state())
        except JVM_GONE:
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
    def seen(self) -> str:
        """The description of the owner before, if this member was in the group until its end."""
        return str(self._java.seen())

    @property
    def reason(self) -> str:
        """Why the lease was lost, or why the group cannot be joined."""
        try:
            return str(self._java.reason())
        except JVM_GONE:
            return "the driver's JVM does not answer"
