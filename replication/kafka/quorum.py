"""The clock of a cluster, as the leader of its controllers tells it: nothing is written."""

import time
from contextlib import AbstractContextManager
from typing import Final

from replication.kafka.call import Call
from replication.kafka.java_admin import JavaAdmin

MS: Final = 1000
TICK_S: Final = 0.001
"""What a clock in ms leaves out."""


class Quorum(JavaAdmin, AbstractContextManager["Quorum"]):
    """The controllers of one cluster."""

    role = "quorum"

    def is_known(self) -> bool:
        """Returns whether the brokers agree on a version of their metadata: Kafka 3.3, or newer.

        Raises:
            CallError: The cluster does not answer.
        """
        with self.named(Call("reading the version of the metadata")):
            found = self._admin.describeFeatures().featureMetadata().get()
        return bool(found.finalizedFeatures().containsKey("metadata.version"))

    def stamp(self) -> tuple[float, float, float] | None:
        """Returns when the cluster was asked, when it had answered, and its own time in between.

        The leader of the controllers describes itself with the time at which it answers. None if it
        does not: Kafka before 3.3.

        Raises:
            CallError: The user may not DESCRIBE the cluster, it has ZooKeeper, or does not answer.
        """
        with self.named(Call("reading the clock of the controllers")):
            asked_at, begun = time.time(), time.monotonic()
            info = self._admin.describeMetadataQuorum().quorumInfo().get()
            answered_at = asked_at + time.monotonic() - begun
        leader = info.leaderId()
        for voter in info.voters():
            told = voter.lastCaughtUpTimestamp()
            if voter.replicaId() == leader and told.isPresent():
                return asked_at, answered_at, told.getAsLong() / MS
        return None

    def skew(self) -> float | None:
        """Returns by how many seconds the cluster's clock is ahead of this machine's.

        None if it does not tell it; raises as `stamp` does.
        """
        if (stamp := self.stamp()) is None:
            return None
        asked_at, answered_at, told = stamp
        return skew_between(told, asked_at, answered_at)


def skew_between(told: float, asked_at: float, answered_at: float) -> float:
    """Returns by how much a clock is ahead that said *told*; negative if it is behind.

    It is 0 where the time that the question took may explain the whole difference.

    Args:
        told: What the clock said, in seconds.
        asked_at: When it was asked, by this machine's clock.
        answered_at: When its answer was here.
    """
    if told > answered_at + TICK_S:
        return told - answered_at
    return min(0.0, told + TICK_S - asked_at)
