"""Java's admin client of one cluster, for what confluent-kafka does wrong.

Within the configured timeout every call returns, or raises a `ClusterError` that names call,
cluster, value and next step.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError, Py4JJavaError

from replication.config.client_keys import with_defaults
from replication.errors import SetupError
from replication.java import java_class
from replication.kafka.api import DESCRIBE_PRODUCERS, Call, ClientError, ClientFailure
from replication.kafka.calls import timeout_s
from replication.kafka.diagnosis import UNREACHABLE, CallError, call_error
from replication.kafka.java_clients import failure_in, java_errors
from replication.kafka.jvm import has_our_classes, java_map, shared_jvm
from replication.kafka.reach import bound_s, reach_of
from replication.log import Log
from replication.model import TopicPartition
from replication.offsets.runs import Stamp

log = Log(__name__)


class JavaAdmin:
    """The client. It joins no group.

    Args:
        jvm: py4j's view of a JVM that has the client: a Spark session's, or `open_jvm`'s.
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.

    Raises:
        CallError: No client can be created with these properties.
    """

    role: ClassVar[str]
    """What it is for, in the client's id."""

    def __init__(self, jvm: JVMView, alias: str, properties: Mapping[str, str]) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._properties = properties
        self._reach = reach_of(properties)
        self._jvm = jvm
        self._client = jvm.org.apache.kafka.clients
        timeout_ms = str(int(timeout_s(properties) * 1000))
        own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        names = properties.get("client.id"), f"replication-{self.role}"
        own["client.id"] = "|".join(filter(None, names))
        settings = java_map(jvm, {**with_defaults("admin", properties), **own})
        with self._translated(Call("creating a client")):
            self._admin = self._client.admin.AdminClient.create(settings)

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    @contextmanager
    def named(self, call: Call) -> Iterator[None]:
        """Turns a failure of the Java client into a `CallError` with Kafka's name for it.

        A cluster that does not answer at all is not even asked: the client would wait for its
        whole timeout.
        """
        if silence := self._reach.await_answer(bound_s(self._properties)):
            raise self._failed(call, silence)
        with self._translated(call):
            yield

    @contextmanager
    def _translated(self, call: Call) -> Iterator[None]:
        try:
            with java_errors(self._jvm):
                yield
        except ClientError as error:
            failure = error.failure
            silence = self._reach.look() if failure.code in UNREACHABLE else None
            raise self._failed(call, silence or failure) from None

    def _failed(self, call: Call, failure: ClientFailure) -> CallError:
        return call_error(self.alias, self._properties, call, failure)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that holds a partition open.

    Args:
        producer_id: Of its producer.
        last_ms: The time of its last record in the partition.
        name: Its transactional id; empty if this user may not see it.
        since_ms: When it began; None if this user may not see it.
    """

    producer_id: int
    last_ms: int
    name: str = ""
    since_ms: int | None = None


class Transactions(JavaAdmin, AbstractContextManager["Transactions"]):
    """The transactions of one cluster. confluent-kafka cannot describe producers."""

    role = "transactions"

    def open_at(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction | str]:
        """Returns each partition's first open transaction, or why it cannot be known.

        Partitions that have none are absent.

        Raises:
            CallError: The cluster does not answer.
        """
        if not has_our_classes(self._jvm):
            return dict.fromkeys(partitions, "replication.jar is not on the class path")
        asked = sorted(partitions)
        with self.named(Call(f"{DESCRIBE_PRODUCERS} {len(asked)} partitions")):
            calls = java_class(self._jvm, "replication.calls.TransactionCalls")(self._admin)
            answers = json.loads(calls.open(json.dumps(asked)))
        found: dict[TopicPartition, OpenTransaction | str] = {}
        for tp, answer in zip(asked, answers, strict=True):
            if failure := failure_in(answer):
                found[tp] = str(self._failed(DESCRIBE_PRODUCERS.of(tp), failure))
            elif answer:
                found[tp] = OpenTransaction(
                    answer["producer"], answer["last"], answer.get("id", ""), answer.get("since")
                )
        return found


TICK_S: Final = 0.001
"""What a clock in ms leaves out."""


class Quorum(JavaAdmin, AbstractContextManager["Quorum"]):
    """The controllers of one cluster, whose leader tells the time: nothing is written."""

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
                return asked_at, answered_at, told.getAsLong() / 1000
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


READING: Final = ("consumer_byte_rate", "request_percentage")
WRITING: Final = ("producer_byte_rate", "request_percentage")
TOOLS_NAMES: Final[Mapping[str, str]] = {"user": "users", "client-id": "clients"}


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit.

    Args:
        of: Whom it limits: names of users and clients by ``user`` and ``client-id``; None for all
            that have no quota of their own.
        key: What it limits, ``producer_byte_rate``.
        value: In bytes a second, or percent of a thread of the broker.
    """

    of: Mapping[str, str | None]
    key: str
    value: float

    def holds_back(self, user: str, client_id: str) -> bool:
        """Returns whether it may be that of a client."""
        own = {"user": user, "client-id": client_id}
        return bool(self.of) and all(
            kind in own and name in (None, own[kind]) for kind, name in self.of.items()
        )

    def removal(self, servers: str) -> str:
        """Returns the line of kafka-configs that removes it."""
        whom = " ".join(
            f"--entity-type {TOOLS_NAMES[kind]} "
            + ("--entity-default" if name is None else f"--entity-name '{name}'")
            for kind, name in self.of.items()
        )
        return (
            f"kafka-configs --bootstrap-server {servers} --alter {whom} --delete-config {self.key}"
        )


class Quotas(JavaAdmin, AbstractContextManager["Quotas"]):
    """The quotas of one cluster, by which its brokers hold clients back without an error."""

    role = "quotas"

    def read(self) -> Iterator[Quota]:
        """Yields all of them.

        Raises:
            CallError: The user may not DESCRIBE_CONFIGS the cluster, or it does not answer.
        """
        every = java_class(self._jvm, "org.apache.kafka.common.quota.ClientQuotaFilter").all()
        with self.named(Call("reading the quotas")):
            found = self._admin.describeClientQuotas(every).entities().get()
        for entity in found.keySet():
            of = dict(entity.entries())
            for key, value in dict(found.get(entity)).items():
                yield Quota(of, key, value)


ANSWER_SECONDS: Final = 10.0
"""How long brokers may take. Without an answer records are compared instead."""


def parted_at(
    properties: Mapping[str, str], copied: Mapping[TopicPartition, Stamp]
) -> dict[TopicPartition, int]:
    """Returns up to which offset each log is still the one that was copied; absent if unknown.

    An unclean leader election cuts the end off a log, and other records take the offsets. Only
    Java's client shows the answer; without a JVM nobody knows.

    Args:
        properties: Of a consumer of the cluster.
        copied: What leaders of earlier epochs had.
    """
    if not copied:
        return {}
    lines = (f"{tp.topic}\t{tp.partition}\t{at}\t{epoch}" for tp, (at, epoch) in copied.items())
    try:
        jvm = shared_jvm()
        if not has_our_classes(jvm):
            return {}
        own = with_defaults("consumer", {**properties, "client.id": "replication-epochs"})
        ends = java_class(jvm, "replication.calls.EpochEnds")
        answers = ends.ask(java_map(jvm, own), "\n".join(lines), int(ANSWER_SECONDS * 1000))
    except (Py4JError, SetupError) as error:
        java = error.java_exception if isinstance(error, Py4JJavaError) else error
        log.info("epoch_ends_unknown", text=str(java))
        return {}
    return {
        tp: at if answer == "=" else min(at, int(answer))
        for (tp, (at, _)), answer in zip(copied.items(), answers.splitlines(), strict=True)
        if answer != "?"
    }
