"""Where the logs of one cluster end, asked every few seconds through a client of its own.

Unlike `Cluster.log_ends` it describes nothing, tries nothing again and raises for the cluster as a
whole only: a partition whose leader does not answer in time is absent.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Final

from replication.kafka.api import Admin, ClientError, ClientFailure
from replication.kafka.call import Call
from replication.kafka.clients import open_admin
from replication.kafka.diagnosis import call_error
from replication.kafka.permissions import DENIED
from replication.model import Isolation, TopicPartition

ANSWER_SECONDS: Final = 4.0
"""How long a request waits."""


class LogEnds(AbstractContextManager["LogEnds"]):
    """The ends of the logs of one cluster. Used by one thread.

    Attributes:
        denied: The topics whose ends the last call lacks, as the user may not describe them.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of its admin clients, in Java's key space.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self.denied = frozenset[str]()
        self._alias = alias
        self._properties = properties
        self._admin: Admin | None = None

    def __exit__(self, *_: object) -> None:
        """Closes the connections. The object is of no use afterwards."""
        if self._admin is not None:
            self._admin.close()

    def ask(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """Returns the ends of *partitions*, without those whose end is unknown.

        Raises:
            ReplicationError: No client can be created, or nobody answers.
        """
        if not partitions:
            return {}
        try:
            if self._admin is None:
                self._admin = open_admin(
                    self._properties, "replication-observe", ANSWER_SECONDS, prefers_java=True
                )
            answers = self._admin.ends(partitions, isolation, ANSWER_SECONDS)
        except ClientError as error:
            call = Call("asking where logs end")
            raise call_error(self._alias, self._properties, call, error.failure) from None
        failures = {tp: one for tp, one in answers.items() if isinstance(one, ClientFailure)}
        self.denied = frozenset(tp.topic for tp, one in failures.items() if one.code == DENIED)
        return {tp: one for tp, one in answers.items() if not isinstance(one, ClientFailure)}
