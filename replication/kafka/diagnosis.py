"""Errors of Kafka clients, with cause and next step.

A call of librdkafka's that fails ends in "timed out". The cause is in an error callback and in log
lines only. `ClientDiagnostics` collects both, so that the error can name the refused connection or
the wrong password.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from replication.errors import ClusterError, ReplicationError
from replication.kafka.security_steps import DENIAL, grant_step, security_of, security_step
from replication.log import Log

log = Log(__name__)

# Codes that disappear by themselves: elections, metadata on its way, a broker that restarts.
RETRIABLE: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_LEADER_EPOCH",
    }
)
UNREACHABLE: Final = frozenset({"_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
# _NOENT: none of the partitions has a leader, as when their topic was deleted.
NOT_FOUND: Final = frozenset(
    {"UNKNOWN_TOPIC_OR_PART", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
)

NEXT_STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "_INVALID_ARG": "correct that property of cluster {alias}",
        "_RESOLVE": "correct the host name in {alias}.bootstrap.servers, or its DNS entry",
        "_TIMED_OUT": "check that its brokers run, network and firewall, and that their "
        "advertised.listeners can be reached from this machine; or raise "
        "{alias}.admin.default.api.timeout.ms",
        "_TRANSPORT": "check that a broker listens there, that {alias}.bootstrap.servers has its "
        "port, and that {alias}.security.protocol is what that listener speaks",
        "_UNSUPPORTED_FEATURE": "this port is not a broker's, perhaps a controller's; correct "
        "{alias}.bootstrap.servers",
        "UNKNOWN_TOPIC_OR_PARTITION": "create that topic or partition on cluster {alias}, or leave "
        "it out",
        "INVALID_CONFIG": "correct the topic's configuration, or create the topic by hand",
        "LEADER_NOT_AVAILABLE": "start the brokers of cluster {alias} that are down",
        "INVALID_REPLICATION_FACTOR": "set replication.factor to at most the number of brokers of "
        "cluster {alias}, or to -1 for its default; offset-syncs, checkpoints and heartbeats "
        "topics have keys of their own, such as checkpoints.topic.replication.factor",
        "POLICY_VIOLATION": "create the topic by hand as the policy of cluster {alias} requires it",
        "TOPIC_EXCEPTION": "leave the topic out with topics.exclude, or choose another "
        "replication.policy.separator",
    }
)

LISTENER: Final = "_LISTENER"
"""Our own code: the listener speaks another protocol than the client."""
SECURITY_CODES: Final = frozenset({"_AUTHENTICATION", "_SSL", LISTENER})

OWN_END: Final = frozenset({"_DESTROY", "_INTR"})
"""This process has ended the call itself, by an interrupt or by closing the client."""

NO_TOPICS: Final[Mapping[str, str]] = MappingProxyType({})


class CallError(ClusterError):
    """A call to a cluster failed.

    Args:
        text: What the operator reads.
        code: Kafka's or librdkafka's name of the error: ``_TRANSPORT``, ``INVALID_CONFIG``.
        rejected: Why the cluster rejected the single topics of the call, by name. Empty where the
            cluster as a whole failed, so that a call without them would fail as well.
    """

    def __init__(self, text: str, code: str, rejected: Mapping[str, str] = NO_TOPICS) -> None:
        self.code = code
        self.rejected = rejected
        super().__init__(text)

    @property
    def is_temporary(self) -> bool:
        """Whether the cluster may answer later without intervention: it is down, or elects."""
        return self.code in UNREACHABLE | RETRIABLE

    @property
    def is_denied(self) -> bool:
        """Whether the user lacks an ACL; Kafka's answer stays the same until it has one."""
        return self.code.endswith(DENIAL)


class InterruptedCallError(ReplicationError):
    """This process ended a call, as at a stop or after a lost lease. No cluster is to blame.

    So it is no `ClusterError`: what is tried again, or recorded of a topic or a group, after an
    answer of a cluster has nothing to do with it.
    """

    def __init__(self, alias: str | None, call: str) -> None:
        cluster = f"cluster {alias}" if alias else "the cluster"
        super().__init__(
            f"{call} was ended by this process, as at a stop or after a lost lease; {cluster} is "
            "not to blame"
        )


class ClientDiagnostics:
    """The errors and log lines of one librdkafka client since `reset`.

    An instance is the client's ``error_cb`` and its logger. It writes everything to the log at
    debug level, and nothing to stderr.
    """

    def __init__(self) -> None:
        self._last_error: tuple[str, str] | None = None
        self._last_line: str | None = None

    def log(self, level: int, text: str, *args: object) -> None:
        """Takes a log line of librdkafka, which calls this method like a ``logging.Logger``'s."""
        line = text % args
        log.debug("client_log", text=line)
        if level >= logging.WARNING:
            self._last_line = line

    def on_error(self, error: KafkaError) -> None:
        """Takes an error from librdkafka: this method is its ``error_cb``."""
        code, text = error.name(), error.str()
        log.debug("client_error", code=code, text=text)
        if code == "_ALL_BROKERS_DOWN":  # the error before it has the cause
            return
        last_code, last_text = self._last_error or ("", "")
        if last_code == code and len(last_text) > len(text):
            return  # the longer text has the hint: "is this a PLAINTEXT listener?"
        self._last_error = (code, text)

    def reset(self) -> None:
        """Forgets everything: a new call begins, which has causes of its own."""
        self._last_error = self._last_line = None

    def reason(self, error: KafkaError | None) -> tuple[str, str]:
        """Returns a failure's code and text: *error*'s, unless that only means "no answer"."""
        if error is not None and error.name() not in UNREACHABLE:
            return error.name(), error.str()
        if self._last_error:
            return self._last_error
        code, text = (error.name(), error.str()) if error else ("_TIMED_OUT", "no answer")
        return code, f"{text} ({self._last_line})" if self._last_line else text

    def is_hopeless(self) -> bool:
        """Returns whether waiting makes no sense, because the cluster rejected the credentials."""
        return self._last_error is not None and self._last_error[0] == "_AUTHENTICATION"


def kafka_error(failure: KafkaException) -> KafkaError:
    """Returns the error inside an exception of confluent-kafka."""
    error = failure.args[0]
    if not isinstance(error, KafkaError):
        raise TypeError(f"a KafkaException without a KafkaError: {failure!r}")
    return error


def call_error(
    alias: str | None,
    properties: Mapping[str, str],
    call: str,
    code: str,
    reason: str,
    step: str | None = None,
) -> CallError:
    """Returns the error of one failed call.

    Args:
        alias: The cluster's alias, None if it has none.
        properties: The client's, with Java's keys; the text has addresses and security only.
        call: What was tried, with the value: ``creating topic A.orders``.
        code: As in `CallError`.
        reason: The text of the cluster or of the client.
        step: What the operator does, with ``{alias}`` for the cluster; by default that of *code*.

    Raises:
        InterruptedCallError: *code* says that this process has ended the call.
    """
    if code in OWN_END:
        raise InterruptedCallError(alias, call)
    servers = properties.get("bootstrap.servers", "")
    of_security = security_step(code, reason, properties)
    step = (
        step
        or of_security
        or grant_step(call, code, servers)
        or NEXT_STEPS.get(code, "see the logs of the brokers of cluster {alias}")
    )
    address = f"bootstrap.servers={servers}"
    if of_security or code in SECURITY_CODES:
        address = f"{address}, {security_of(properties)}"
    if alias is None:
        step = step.replace("cluster {alias}", "the cluster").replace("{alias}.", "")
        who = f"the cluster at {address}"
    else:
        step = step.format(alias=alias)
        who = f"cluster {alias} ({address})"
    return CallError(f"{who}: {call} failed: {one_line(reason)}; {step}", code)


def one_line(text: str) -> str:
    """Returns *text* without line breaks."""
    return " ".join(text.split())
