"""The consumer groups of one Kafka cluster: their states, members and committed offsets.

Every call ends within about the configured timeout in an answer or in a `ClusterError` that names
call, cluster, value, next step. Never a member of a group itself.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.errors import ClusterError
from replication.io.kafka_calls import PAUSE_S, Calls, listed, timeout_s
from replication.io.kafka_errors import CallError, kafka_error
from replication.model import Committed, TopicPartition

log = logging.getLogger(__name__)

Futures = dict[str, "Future[Any]"]
Ask = Callable[[Collection[str], float], Futures]

IN_FLIGHT: Final = 50
MOVING: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
)
# How a coordinator refuses offsets from outside while a group has members.
ACTIVE: Final = frozenset({"NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"})


class GroupActiveError(ClusterError):
    """A group has members, so that its offsets are theirs to commit. The text names them."""


class Groups(AbstractContextManager["Groups"]):
    """The groups of one cluster; *alias* and *properties* as `Cluster` takes them."""

    def __init__(self, alias: str, properties: Mapping[str, str]) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._calls = Calls(alias, properties, "replication-groups")
        self._timeout_s = timeout_s(properties)
        self._admin = self._calls.admin

    def __exit__(self, *_: object) -> None:
        """Let go of the connections; the cluster cannot be asked afterwards."""
        del self._admin, self._calls

    def states(self) -> dict[str, str]:
        """The state of every consumer group, by Kafka's name for it: ``STABLE``, ``EMPTY``.

        Share and streams groups, and groups of other clients than consumers, are absent. That one
        broker does not tell its groups is an error, for they would look deleted.
        """
        answers = self._calls.results("list consumer groups", self._ask_listing, ["groups"])
        listing = self._calls.accepted("list consumer", answers)["groups"]
        # Kafka's ASSIGNING and RECONCILING (KIP-848) are UNKNOWN to librdkafka, and it writes
        # REBALANCING where Kafka has REBALANCE. It refuses to ask for the group named "" (KIP-289).
        states = {it.group_id: it.state.name for it in listing if it.group_id}
        return {group: it.replace("REBALANCING", "REBALANCE") for group, it in states.items()}

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """The committed offsets of each group; {} for a group that has none or does not exist.

        A group whose offsets the cluster does not tell is absent, with a warning in the log.

        Raises:
            CallError: The cluster tells the offsets of none of them.
        """
        call = "tell committed offsets of groups"
        wanted = dict.fromkeys(groups)
        answers = self._results(call, partial(self._ask_committed, len(wanted)), wanted)
        wrong = {group: _errors(group, answer) for group, answer in answers.items()}
        refused = {group: next(iter(errors.values())) for group, errors in wrong.items() if errors}
        try:
            self._calls.accepted(call, refused)
        except CallError as error:
            if len(refused) == len(answers):
                raise
            log.warning("%s; they are left out", error)
        return {group: _offsets(answers[group]) for group in answers if group not in refused}

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set a memberless group's offsets of these partitions; make the group if need be.

        Raises:
            GroupActiveError: The group has members.
            CallError: The cluster refused some partitions; it may have taken the others.
        """
        call = f"commit offsets of group {group}"
        if not offsets:
            return
        positions = [KafkaTopicPartition(*tp, it.offset, it.metadata) for tp, it in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, positions)]
        alter = self._admin.alter_consumer_group_offsets
        answers = self._results(call, lambda _, s: alter(request, request_timeout=s), [group])
        refused = _errors(group, answers[group])
        if any(error.name() in ACTIVE for error in refused.values()):
            raise GroupActiveError(
                f"cluster {self.alias} (bootstrap.servers={self.servers}) could not {call}: "
                f"{self._blockers(group)}; stop them, or leave the group out with groups.exclude"
            )
        self._calls.accepted(f"{call} for", refused)

    def members(self, group: str) -> list[str]:
        """``client-id at host`` of each member of *group*; [] if it has none or does not exist."""
        describe = self._admin.describe_consumer_groups  # tells classic groups and KIP-848's
        answers: dict[str, Any] = self._calls.results(
            "describe group", lambda keys, s: describe(list(keys), request_timeout=s), [group]
        )
        described = self._calls.accepted("describe group", answers, {"GROUP_ID_NOT_FOUND"}).values()
        found = [member for it in described for member in it.members]
        return sorted(f"{it.client_id} at {it.host.removeprefix('/')}" for it in found)

    def _blockers(self, group: str) -> str:
        try:
            members = listed(self.members(group))
        except ClusterError as error:
            log.warning("%s", error)
            members = ""
        return f"its members are {members}" if members else "its members could not be listed"

    def _ask_listing(self, keys: Collection[str], timeout_s: float) -> Futures:
        """A future of the listing that fails if any broker failed to add its groups."""
        listing: Future[Any] = Future()

        def settle(asked: "Future[Any]") -> None:
            if failure := asked.exception():
                listing.set_exception(failure)
            elif errors := asked.result().errors:  # KafkaErrors, whatever its documentation says
                listing.set_exception(KafkaException(errors[0]))
            else:
                listing.set_result(asked.result().valid)

        self._admin.list_consumer_groups(request_timeout=timeout_s).add_done_callback(settle)
        return dict.fromkeys(keys, listing)

    def _ask_committed(self, total: int, groups: Collection[str], timeout_s: float) -> Futures:
        """Done futures; exceptions only if all *total* groups failed. The client takes one each."""
        deadline = time.monotonic() + timeout_s
        asked: Futures = {}
        waiting: set[Future[Any]] = set()
        for group in groups:
            if len(waiting) >= IN_FLIGHT:
                waiting = set(wait(waiting, return_when=FIRST_COMPLETED).not_done)
            left_s = max(PAUSE_S, deadline - time.monotonic())
            request = [ConsumerGroupTopicPartitions(group)]
            asked |= self._admin.list_consumer_group_offsets(request, request_timeout=left_s)
            waiting.add(asked[group])
        wait(waiting)
        failed = {it: e for it in asked if isinstance(e := asked[it].exception(), KafkaException)}
        # `results` ends at the first exception that no broker sent, not at an error as a result:
        # one coordinator that is down must not cost the other coordinators' groups.
        for group in failed if len(failed) < total else ():
            asked[group] = Future()
            asked[group].set_result(kafka_error(failed[group]))
        return asked

    def _results(self, call: str, ask: Ask, groups: Iterable[str]) -> dict[str, Any]:
        """As `Calls.results`, and again while a coordinator moves or is only being made."""
        deadline = time.monotonic() + self._timeout_s
        answers: dict[str, Any] = {}
        pending = list(groups)
        while True:
            answers |= self._calls.results(call, ask, pending)
            names = {it: {e.name() for e in _errors(it, answers[it]).values()} for it in pending}
            pending = [it for it in pending if names[it] & MOVING]
            if not pending or time.monotonic() > deadline:
                return answers
            self._admin.poll(PAUSE_S)


def _errors(group: str, answer: ConsumerGroupTopicPartitions | KafkaError) -> dict[str, KafkaError]:
    """The error of *answer* as a whole, or else those of partitions."""
    if isinstance(answer, KafkaError):
        return {group: answer}
    return {f"{tp.topic}-{tp.partition}": tp.error for tp in answer.topic_partitions if tp.error}


def _offsets(answer: ConsumerGroupTopicPartitions) -> dict[TopicPartition, Committed]:
    return {
        TopicPartition(tp.topic, tp.partition): Committed(tp.offset, tp.metadata or "")
        for tp in answer.topic_partitions
        if tp.offset >= 0  # -1: nothing committed
    }
