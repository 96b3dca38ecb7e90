"""The consumer groups of one Kafka cluster: their states, members and committed offsets.

Through the Java client that Spark's connector brings, for two reasons that were measured with
confluent-kafka 2.16.1: its ``list_consumer_group_offsets`` can end the process (a segmentation
fault) while a coordinator loads, and it commits metadata with a zero byte at its end. Never a
member of any group. Every call ends within the configured timeout in an answer or in a
`ClusterError` that names call, cluster, value, next step.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.errors import ClusterError
from replication.kafka.calls import listed, timeout_s
from replication.kafka.diagnosis import CallError, call_error
from replication.model import Committed, TopicPartition

log = logging.getLogger(__name__)

# How a coordinator refuses offsets from outside while a group has members.
ACTIVE: Final = frozenset({"NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"})
ENTRY: Final = re.compile(
    r"(?:\A\{|, )([\w.-]+)-(\d+)="
    r"(?:null|OffsetAndMetadata\{offset=(\d+), leaderEpoch=\w+, metadata='(.*?)'\})(?=, |\}\Z)",
    re.DOTALL,
)


class GroupActiveError(ClusterError):
    """A group has members, so that its offsets are theirs to commit. The text names them."""


class Groups(AbstractContextManager["Groups"]):
    """The consumer groups of one cluster. Threads may share it.

    Args:
        jvm: py4j's view of a JVM that has the client: a Spark session's, or `open_jvm`'s.
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.

    Raises:
        CallError: The client cannot be made of these properties.
    """

    def __init__(self, jvm: JVMView, alias: str, properties: Mapping[str, str]) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._jvm = jvm
        self._client = jvm.org.apache.kafka.clients
        settings = jvm.java.util.Properties()
        timeout_ms = str(int(timeout_s(properties) * 1000))
        own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        name = "|".join(filter(None, (properties.get("client.id"), "replication-groups")))
        for key, value in {**properties, **own, "client.id": name}.items():
            settings.setProperty(key, value)
        with self._named("be given a client"):
            self._admin = self._client.admin.AdminClient.create(settings)

    def __exit__(self, *_: object) -> None:
        """Let go of the connections; the cluster cannot be asked afterwards."""
        self._admin.close()

    def states(self) -> dict[str, str]:
        """The state of every consumer group, by Kafka's name for it: ``STABLE``, ``EMPTY``.

        Share and streams groups, and groups of other clients than consumers, are absent.

        Raises:
            CallError: A broker did not tell its groups: a missing one would look deleted.
        """
        with self._named("list consumer groups"):
            listing = self._admin.listConsumerGroups().all().get()
        return {it.groupId(): it.state().get().name() for it in listing if it.state().isPresent()}

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """The committed offsets of each group; {} for a group that has none or does not exist.

        A group whose offsets the cluster does not tell is absent, with a warning in the log.

        Raises:
            CallError: The cluster tells the offsets of none of them.
        """
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        specs = self._jvm.java.util.HashMap()
        for name in names:
            specs.put(name, self._client.admin.ListConsumerGroupOffsetsSpec())
        asked = self._admin.listConsumerGroupOffsets(specs)
        found: dict[str, dict[TopicPartition, Committed]] = {}
        refused: list[CallError] = []
        for name in names:
            try:
                with self._named(f"tell committed offsets of group {name}"):
                    found[name] = _offsets(asked.partitionsToOffsetAndMetadata(name).get())
            except CallError as failure:  # noqa: PERF203 - the others' answers count
                refused.append(failure)
        if refused and not found:
            raise refused[0]
        for one in refused:
            log.warning("%s; it is left out", one)
        return found

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set offsets of a group that has no members; make the group if need be.

        Partitions that are not in *offsets* keep theirs.

        Raises:
            GroupActiveError: The group has members.
            CallError: The cluster refused some partitions; it may have taken the others.
        """
        if not offsets:
            return
        call = f"commit offsets of group {group}"
        positions = self._jvm.java.util.HashMap()
        for tp, it in offsets.items():
            positions.put(self._partition(tp), self._position(it))
        answer = self._admin.alterConsumerGroupOffsets(group, positions)
        refused: dict[TopicPartition, CallError] = {}
        for tp in offsets:
            try:
                with self._named(f"{call} for {tp}"):
                    answer.partitionResult(self._partition(tp)).get()
            except CallError as error:  # noqa: PERF203 - all of them are to be named
                refused[tp] = error
        if any(error.code in ACTIVE for error in refused.values()):
            raise GroupActiveError(
                f"cluster {self.alias} (bootstrap.servers={self.servers}) could not {call}: "
                f"{self._blockers(group)}; stop its consumers on cluster {self.alias}, "
                "or leave the group out with groups.exclude"
            )
        if refused:
            first = next(iter(refused.values()))
            names = listed([str(tp) for tp in refused])
            raise CallError(f"{first} (refused: {names})", first.code)

    def members(self, group: str) -> list[str]:
        """``client-id at host`` of each member of *group*; [] if it has none or does not exist."""
        names = self._jvm.java.util.ArrayList([group])
        try:
            with self._named(f"describe group {group}"):
                described = self._admin.describeConsumerGroups(names).all().get().get(group)
        except CallError as error:
            if error.code != "GROUP_ID_NOT_FOUND":
                raise
            return []
        found = described.members()
        return sorted(f"{it.clientId()} at {it.host().removeprefix('/')}" for it in found)

    def _blockers(self, group: str) -> str:
        try:
            members = self.members(group)
        except ClusterError as error:
            log.warning("%s", error)
            members = []
        return (
            f"its members are {listed(members)}" if members else "its members could not be listed"
        )

    def _partition(self, tp: TopicPartition) -> Any:  # noqa: ANN401 - a Java object
        return self._jvm.org.apache.kafka.common.TopicPartition(tp.topic, tp.partition)

    def _position(self, it: Committed) -> Any:  # noqa: ANN401 - a Java object
        return self._client.consumer.OffsetAndMetadata(it.offset, it.metadata)

    @contextmanager
    def _named(self, call: str) -> Iterator[None]:
        """Turns a failure of the Java client into a `CallError` with Kafka's name for it."""
        try:
            yield
        except Py4JJavaError as failure:
            error = failure.java_exception
            while error.getCause() is not None:  # what the future and the client wrap it in
                error = error.getCause()
            code = self._jvm.org.apache.kafka.common.protocol.Errors.forException(error).name()
            code = "_TIMED_OUT" if code == "REQUEST_TIMED_OUT" else code  # the client's own, mostly
            reason = str(error.getMessage() or error.getClass().getSimpleName())
            raise call_error(self.alias, self.servers, call, code, reason) from None


def _offsets(java: Any) -> dict[TopicPartition, Committed]:  # noqa: ANN401 - a Java map
    """*java*, a map of TopicPartition to OffsetAndMetadata, where null means nothing committed.

    Its text is read in one go, for each getter is a round trip between two processes. A note that
    looks like a part of that text does not add up, and then the getters are asked.
    """
    text, size = str(java.toString()), int(java.size())
    entries = list(ENTRY.finditer(text)) if size else []
    if len(entries) == size and (not size or "".join(it[0] for it in entries) + "}" == text):
        return {
            TopicPartition(it[1], int(it[2])): Committed(int(it[3]), it[4])
            for it in entries
            if it[3] is not None
        }
    found = {TopicPartition(tp.topic(), tp.partition()): java.get(tp) for tp in java}
    return {tp: Committed(it.offset(), it.metadata()) for tp, it in found.items() if it is not None}
