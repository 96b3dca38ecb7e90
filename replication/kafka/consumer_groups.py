"""The consumer groups of one Kafka cluster: their states, members and committed offsets.

This is the Java client, because confluent-kafka 2.16.1 has two defects: its
``list_consumer_group_offsets`` can crash the process (segmentation fault) while a coordinator
loads, and it commits metadata with a zero byte at its end. The client joins no group. Within the
configured timeout every call returns, or raises a `ClusterError` that names call, cluster, value
and next step.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from py4j.java_gateway import JavaObject

from replication.errors import ClusterError
from replication.java import java_class
from replication.kafka.api import (
    COMMIT,
    DESCRIBE_GROUP,
    READ_COMMITTED,
    Call,
    ClientError,
    ClientFailure,
    join_names,
)
from replication.kafka.calls import Calls
from replication.kafka.diagnosis import CallError
from replication.kafka.java_admin import JavaAdmin
from replication.kafka.jvm import has_our_classes
from replication.log import Log
from replication.model import Committed, TopicPartition

log = Log(__name__)

PATIENCE_SECONDS: Final = 3.0
"""How long a cluster may be silent: whoever asks has another answer, or says that it is unknown."""

Members = dict[str, frozenset[str]]
"""The static ids of the members, by group; a group without members has none."""


class GroupMembers(AbstractContextManager["GroupMembers"]):
    """Who is in the groups that leases are, as their coordinators know it now.

    It is asked again and again through one client: each new one would log in.

    Args:
        alias: The cluster's name in the configuration.
        properties: Of an admin client, in Java's key space.

    Raises:
        ClusterError: No client can be made of them.
    """

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self._calls = Calls(alias, properties, "replication-members", PATIENCE_SECONDS)

    def __exit__(self, *_: object) -> None:
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


# The errors of a coordinator that rejects offsets because the group has members.
ACTIVE: Final = frozenset({"NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"})


class GroupActiveError(ClusterError):
    """A group has members, and only they may commit its offsets. The text names them."""


class Groups(JavaAdmin, AbstractContextManager["Groups"]):
    """The consumer groups of one cluster. Threads may share it."""

    role = "groups"

    def states(self) -> dict[str, str]:
        """Returns the state of every consumer group, by Kafka's names: ``STABLE``, ``EMPTY``.

        Share groups, streams groups and groups of other clients than consumers are absent, and so
        are those whose coordinator is down or still loads them: `missing` asks for a single group.

        Raises:
            CallError: A broker did not list its groups; they would look as if deleted.
        """
        with self.named(Call("listing consumer groups")):
            if (calls := self._calls) is not None:
                states: dict[str, str] = json.loads(calls.states())
                return states
            listing = self._admin.listConsumerGroups().all().get()
        return {
            group.groupId(): group.state().get().name()
            for group in listing
            if group.state().isPresent()
        }

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """Returns each group's committed offsets; {} for one that has none or does not exist.

        A group whose offsets cannot be read is absent, and a warning is logged.

        Raises:
            CallError: The offsets of none of the groups can be read.
        """
        found, failures = self.readable(groups)
        if failures and not found:
            raise next(iter(failures.values()))
        for one in failures.values():
            log.warning("group_skipped", text=one)
        return found

    def readable(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, dict[TopicPartition, Committed]], dict[str, CallError]]:
        """Returns the committed offsets of each group, and why those of the others cannot be read.

        Raises:
            CallError: The cluster does not answer for any of the groups.
        """
        names = list(dict.fromkeys(groups))
        if not names:
            return {}, {}
        found: dict[str, dict[TopicPartition, Committed]] = {}
        failures: dict[str, CallError] = {}
        offsets_of = self._ask(names)
        for name in names:
            try:
                with self.named(READ_COMMITTED.of(name)):
                    found[name] = offsets_of(name)
            except CallError as failure:  # noqa: PERF203 - the other groups still count
                failures[name] = failure
        if len(failures) == len(names) and all(one.is_temporary for one in failures.values()):
            raise failures[names[0]]
        return found, failures

    def _ask(self, names: Sequence[str]) -> Callable[[str], dict[TopicPartition, Committed]]:
        """Returns a function that returns a group's offsets, or raises why they cannot be read."""
        if (calls := self._calls) is not None:
            with self.named(Call(f"reading the committed offsets of {len(names)} groups")):
                answers = json.loads(calls.committed(json.dumps(names)))
            return lambda name: _offsets(answers[name])
        specs = java_class(self._jvm, "java.util.HashMap")()
        for name in names:
            specs.put(name, self._client.admin.ListConsumerGroupOffsetsSpec())
        listing = self._admin.listConsumerGroupOffsets(specs)
        return lambda name: _offsets_one_by_one(listing.partitionsToOffsetAndMetadata(name).get())

    @cached_property
    def _calls(self) -> JavaObject:
        """Our Java class; None on a platform that forbids jars, where each getter is a call."""
        if not has_our_classes(self._jvm):
            return None
        return java_class(self._jvm, "replication.calls.GroupCalls")(self._admin)

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commits offsets of a group without members; Kafka creates a group that does not exist.

        Partitions that are not in *offsets* keep theirs.

        Raises:
            GroupActiveError: The group has members.
            CallError: Some partitions were rejected; the others may be committed.
        """
        if not offsets:
            return
        call = COMMIT.of(group)
        positions = java_class(self._jvm, "java.util.HashMap")()
        for tp, committed in offsets.items():
            position = self._client.consumer.OffsetAndMetadata(committed.offset, committed.metadata)
            positions.put(self._partition(tp), position)
        answer = self._admin.alterConsumerGroupOffsets(group, positions)
        try:
            with self.named(call):
                answer.all().get()
        except CallError as error:  # of any of them; a round trip for each only now
            raise self._rejection(group, call, answer, offsets) or error from None

    def _rejection(
        self,
        group: str,
        call: Call,
        answer: JavaObject,
        offsets: Iterable[TopicPartition],
    ) -> ClusterError | None:
        rejected: dict[TopicPartition, CallError] = {}
        for tp in offsets:
            try:
                with self.named(replace(call, text=f"{call} for {tp}")):
                    answer.partitionResult(self._partition(tp)).get()
            except CallError as error:  # noqa: PERF203 - the error names all of them
                rejected[tp] = error
        if any(error.code in ACTIVE for error in rejected.values()):
            return GroupActiveError(
                f"cluster {self.alias} (bootstrap.servers={self.servers}): {call} failed: "
                f"{self._blockers(group)}; stop its consumers on cluster {self.alias}, "
                "or leave the group out with groups.exclude"
            )
        if not rejected:
            return None
        first = next(iter(rejected.values()))
        if first.code == "GROUP_ID_NOT_FOUND":  # Kafka would make one that does not exist
            return CallError(
                f"cluster {self.alias} (bootstrap.servers={self.servers}): {call} failed: a group "
                f"of this name is there that has no offsets of a consumer group, such as a share "
                f"group; give one of both another name",
                first.code,
            )
        names = join_names([str(tp) for tp in rejected])
        return CallError(f"{first} (rejected: {names})", first.code)

    def members(self, group: str) -> list[str]:
        """Returns ``client-id at host`` of each member of *group*; [] if there is none."""
        names = java_class(self._jvm, "java.util.ArrayList")()
        names.add(group)
        try:
            with self.named(DESCRIBE_GROUP.of(group)):
                described = self._admin.describeConsumerGroups(names).all().get().get(group)
        except CallError as error:
            if error.code != "GROUP_ID_NOT_FOUND":
                raise
            return []
        return sorted(
            f"{member.clientId()} at {member.host().removeprefix('/')}"
            for member in described.members()
        )

    def missing(self, groups: Iterable[str]) -> set[str]:
        """Returns those of *groups* that do not exist, as their coordinators say.

        One whose coordinator does not answer, or still loads it, is not among them.
        """
        missing, unknown = self.looked_up(groups)
        for group, error in unknown.items():
            log.warning("group_state_unknown", group=group, text=error)
        return missing

    def looked_up(self, groups: Iterable[str]) -> tuple[set[str], dict[str, CallError]]:
        """Asks the coordinators of *groups*: returns those that do not exist, as these say.

        Also returns why nobody says it of others: their coordinator is down, or still loads them.
        """
        names = java_class(self._jvm, "java.util.ArrayList")()
        for group in groups:
            names.add(group)
        described = self._admin.describeConsumerGroups(names).describedGroups()
        missing, unknown = set[str](), dict[str, CallError]()
        for group in names:
            try:
                with self.named(DESCRIBE_GROUP.of(group)):
                    is_missing = described.get(group).get().state().name() == "DEAD"
            except CallError as error:
                is_missing = error.code == "GROUP_ID_NOT_FOUND"
                if not is_missing:
                    unknown[group] = error
            if is_missing:
                missing.add(group)
        return missing, unknown

    def _blockers(self, group: str) -> str:
        try:
            members = self.members(group)
        except ClusterError as error:
            log.warning("members_unknown", group=group, text=error)
            members = []
        if not members:
            return "the group has members, which could not be listed"
        return f"the group has members: {join_names(members)}"

    def _partition(self, tp: TopicPartition) -> JavaObject:
        return java_class(self._jvm, "org.apache.kafka.common.TopicPartition")(
            tp.topic, tp.partition
        )


def _offsets(
    answer: list[tuple[str, int, int, str]] | dict[str, Any],
) -> dict[TopicPartition, Committed]:
    # of one group, by ``GroupCalls.java``
    if isinstance(answer, dict):
        raise ClientError(ClientFailure(**answer))
    return {
        TopicPartition(topic, partition): Committed(offset, metadata)
        for topic, partition, offset, metadata in answer
    }


def _offsets_one_by_one(found: JavaObject) -> dict[TopicPartition, Committed]:
    return {
        TopicPartition(tp.topic(), tp.partition()): Committed(
            position.offset(), position.metadata()
        )
        for tp in found
        if (position := found.get(tp)) is not None
    }
