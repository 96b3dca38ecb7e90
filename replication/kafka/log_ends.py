"""Where the logs of one cluster end, asked every few seconds through a client of its own.

Unlike `Cluster.log_ends` it describes nothing, tries nothing again and raises for the cluster as a
whole only: a partition whose leader does not answer in time is absent.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from replication.config.clients.defaults import with_defaults
from replication.kafka.api import ClientFailure
from replication.kafka.call import Call
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import call_error
from replication.kafka.jvm import has_our_classes, java_map, shared_jvm
from replication.model import Isolation, TopicPartition

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

ANSWER_SECONDS: Final = 4.0
"""How long a request waits."""

CLIENT: Final = "replication-observe"


class LogEnds(AbstractContextManager["LogEnds"]):
    """The ends of the logs of one cluster. Used by one thread.

    Attributes:
        failures: Why the last call has no end for some of the topics, by Java's class of the error.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of its admin clients, in Java's key space.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self.failures: dict[str, str] = {}
        self._alias = alias
        self._properties = properties
        self._java: JavaObject | None = None
        self._cluster: Cluster | None = None

    def __exit__(self, *_: object) -> None:
        """Closes the connections. The object is of no use afterwards."""
        if self._java is not None:
            with suppress(Py4JError):  # the JVM may be gone, and the client with it
                self._java.close()
        if self._cluster is not None:
            self._cluster.__exit__()

    def ask(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """Returns the ends of *partitions*, without those of which none is known.

        Raises:
            ReplicationError: No client can be created, or nobody answers.
        """
        if not partitions:
            return {}
        jvm = shared_jvm()
        if not has_our_classes(jvm):
            return self._other().log_ends(partitions, isolation)
        try:
            if self._java is None:
                properties = with_defaults("admin", self._properties)
                settings = java_map(jvm, {**properties, "client.id": CLIENT})
                self._java = jvm.replication.calls.AdminCalls(settings)
            is_committed = isolation == "read_committed"
            answer = self._java.logEnds(
                _lines(partitions), is_committed, int(ANSWER_SECONDS * 1000)
            )
        except Py4JError as error:
            call = Call("asking where logs end")
            failure = ClientFailure("_FAIL", str(error))
            raise call_error(self._alias, self._properties, call, failure) from None
        return self._ends(partitions, answer)

    def _ends(
        self, partitions: Collection[TopicPartition], answer: str
    ) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        self.failures = {}
        lines = zip(_by_topic(partitions).items(), answer.splitlines(), strict=True)
        for (topic, numbers), line in lines:
            for number, offset in zip(numbers, line.split("\t")[1:], strict=True):
                if offset.isdigit():
                    ends[TopicPartition(topic, number)] = int(offset)
                else:
                    self.failures[topic] = offset.removeprefix("!")
        return ends

    def _other(self) -> Cluster:
        if self._cluster is None:
            patience = ANSWER_SECONDS
            self._cluster = Cluster(
                self._alias, self._properties, client_id=CLIENT, patience_s=patience
            )
        return self._cluster


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return numbers


def _lines(partitions: Collection[TopicPartition]) -> str:
    by_topic = _by_topic(partitions)
    return "\n".join("\t".join([topic, *map(str, found)]) for topic, found in by_topic.items())
