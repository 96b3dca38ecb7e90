"""How far the clocks of clusters are ahead of this machine's, also of those that nothing writes to.

What a flow writes to a cluster is stamped by its brokers. The clock of any other cluster is that of
the leader of its controllers, which tells it to users with DESCRIBE on the cluster.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from replication.config.tree import ClusterConfig
from replication.figures.lag import Skew, SkewMeter
from replication.java import JVM_GONE
from replication.kafka.diagnosis import CallError
from replication.kafka.java_admin import Quorum
from replication.kafka.jvm import has_our_classes, shared_jvm

EACH_SECONDS: Final = 60.0
UNTOLD_SECONDS: Final = 3600.0
"""From one question to the next where the cluster does not tell it: before Kafka 3.3, or denied."""

PATIENCE: Final = {"default.api.timeout.ms": "5000", "request.timeout.ms": "5000"}

SkewOf = Callable[[str], Skew | None]
"""Tells how far the clock of a cluster is ahead, by its alias; None if that is unknown."""


class Clocks:
    """The clocks of the clusters of one process; asked by one thread.

    Args:
        written: What the clusters' own stamps say.
    """

    def __init__(self, written: SkewOf) -> None:
        self._written = written
        self._told = defaultdict[str, SkewMeter](SkewMeter)
        self._due: dict[str, float] = {}
        self._quorums: dict[str, Quorum] = {}  # a new client costs more than all its questions

    def skew(self, alias: str) -> Skew | None:
        """Returns how far the clock of cluster *alias* is ahead; None if that is unknown."""
        written = self._written(alias)
        if written is None and alias in self._told:
            return self._told[alias].skew
        return written

    def forget(self, alias: str) -> None:
        """Forgets what a cluster has told that is silent now: its clock may be set meanwhile."""
        self._told.pop(alias, None)
        self._due.pop(alias, None)
        self._close(alias)

    def close(self) -> None:
        """Closes the clients."""
        for alias in list(self._quorums):
            self._close(alias)

    def _close(self, alias: str) -> None:
        if (quorum := self._quorums.pop(alias, None)) is not None:
            with suppress(*JVM_GONE):  # the JVM has ended, and the client with it
                quorum.__exit__()

    def ask(self, cluster: ClusterConfig) -> None:
        """Asks the controllers of *cluster*, at most once a minute, if its clock is not known.

        What is not told stays unknown: `doctor` says why.
        """
        alias, now = cluster.alias, time.monotonic()
        if now < self._due.get(alias, now) or self._written(alias) is not None:
            return
        self._due[alias] = now + UNTOLD_SECONDS
        try:
            stamp = self._stamp_of(cluster)
        except CallError as error:
            self._close(alias)
            if error.is_temporary:
                self._due[alias] = now + EACH_SECONDS
            return
        if stamp is None:
            self._close(alias)
            return
        self._due[alias] = now + EACH_SECONDS
        self._told[alias].add(*stamp)

    def _stamp_of(self, cluster: ClusterConfig) -> tuple[float, float, float] | None:
        alias = cluster.alias
        if alias not in self._quorums:
            jvm = shared_jvm()
            if not has_our_classes(jvm):
                return None
            self._quorums[alias] = Quorum(jvm, alias, {**cluster.admin, **PATIENCE})
        return self._quorums[alias].stamp()
