"""What librdkafka says when a cluster does not answer, turned into errors to act on.

Its calls end in "timed out"; why is said on the side, in a callback and in log lines.
`ClientDiagnostics` listens there, so that the error can name the refused connection or the wrong
password.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from replication.errors import ClusterError

log = logging.getLogger(__name__)

# Codes that pass without anyone's help: elections, metadata on its way, a broker restarting.
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
# _NOENT: none of the partitions asked for has a leader, as when their topic is gone.
NOT_FOUND: Final = frozenset(
    {"UNKNOWN_TOPIC_OR_PART", "_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
)

NEXT_STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "_AUTHENTICATION": "check {alias}.sasl.mechanism and the user and password it uses",
        "_INVALID_ARG": "correct that property of cluster {alias}",
        "_RESOLVE": "correct the host name in {alias}.bootstrap.servers, or its DNS entry",
        "_SSL": "check {alias}.security.protocol, the {alias}.ssl.* files and the host's name",
        "_TIMED_OUT": "check network and firewall, and that the broker's advertised.listeners can "
        "be reached from here; or raise {alias}.admin.default.api.timeout.ms",
        "_TRANSPORT": "check that a broker listens there, that {alias}.bootstrap.servers has its "
        "port, and that {alias}.security.protocol is what that listener speaks",
        "_UNSUPPORTED_FEATURE": "this port does not answer like a broker's: is it a controller's? "
        "Correct {alias}.bootstrap.servers",
        "CLUSTER_AUTHORIZATION_FAILED": "grant this user that operation on cluster {alias}, or "
        "create the topic by hand",
        "GROUP_AUTHORIZATION_FAILED": "grant this user READ and DESCRIBE on the group, on cluster "
        "{alias}, or leave the group out with groups.exclude",
        "UNKNOWN_TOPIC_OR_PARTITION": "create that topic or partition on cluster {alias}, or leave "
        "it out",
        "INVALID_CONFIG": "correct the topic's configuration, or create the topic by hand",
        "LEADER_NOT_AVAILABLE": "see which of cluster {alias}'s brokers are down, and start them",
        "INVALID_REPLICATION_FACTOR": "set replication.factor to no more than cluster {alias}'s "
        "brokers, or to -1 for its default; offset-syncs, checkpoints and heartbeats topics have "
        "factors of their own, such as checkpoints.topic.replication.factor",
        "POLICY_VIOLATION": "create the topic by hand as cluster {alias}'s policy wants it",
        "TOPIC_AUTHORIZATION_FAILED": "grant this user that operation on the topic, on cluster "
        "{alias}, or leave the topic out with topics.exclude",
        "TOPIC_EXCEPTION": "leave the topic out with topics.exclude, or choose another "
        "replication.policy.separator",
    }
)


class CallError(ClusterError):
    """A call to a cluster failed.

    Args:
        text: What the operator reads.
        code: Kafka's or librdkafka's name of the failure: ``_TRANSPORT``, ``INVALID_CONFIG``.
    """

    def __init__(self, text: str, code: str) -> None:
        self.code = code
        super().__init__(text)


class ClientDiagnostics:
    """What librdkafka said on the side since `forget`; doubles as the logger it writes to.

    Nothing of it reaches stderr: all goes to Python's logging at debug level.
    """

    def __init__(self) -> None:
        self._said: tuple[str, str] | None = None
        self._logged: str | None = None

    def log(self, level: int, text: str, *args: object) -> None:
        """One of librdkafka's log lines; it calls this as it would a ``logging.Logger``."""
        line = text % args
        log.debug("%s", line)
        if level >= logging.WARNING:
            self._logged = line

    def hear(self, error: KafkaError) -> None:
        """Listen to librdkafka: this is its ``error_cb``."""
        log.debug("%s %s", error.name(), error.str())
        if error.name() == "_ALL_BROKERS_DOWN":  # the line before it says why
            return
        if self._said and self._said[0] == error.name() and len(self._said[1]) > len(error.str()):
            return  # said at more length before: "is this a PLAINTEXT listener?"
        self._said = (error.name(), error.str())

    def forget(self) -> None:
        """Start a new call: what was said before is not its reason."""
        self._said = self._logged = None

    def reason(self, error: KafkaError | None) -> tuple[str, str]:
        """Code and text of why a call failed: *error*'s own unless it only says "no answer"."""
        if error is not None and error.name() not in UNREACHABLE:
            return error.name(), error.str()
        if self._said:
            return self._said
        code, text = (error.name(), error.str()) if error else ("_TIMED_OUT", "no answer")
        return code, f"{text} ({self._logged})" if self._logged else text

    def is_hopeless(self) -> bool:
        """Whether waiting for an answer makes no sense: the cluster refused the credentials."""
        return self._said is not None and self._said[0] == "_AUTHENTICATION"


def kafka_error(failure: KafkaException) -> KafkaError:
    """The error that an exception of confluent-kafka carries."""
    error = failure.args[0]
    if not isinstance(error, KafkaError):
        raise TypeError(f"a KafkaException without a KafkaError: {failure!r}")
    return error


def call_error(alias: str | None, servers: str, call: str, code: str, reason: str) -> CallError:
    """The error of one failed call.

    Args:
        alias: The cluster's alias, where it is known.
        servers: Its bootstrap.servers, as configured.
        call: What was tried, with the value: ``create topic A.orders``.
        code: See `CallError`.
        reason: In the cluster's or librdkafka's words.
    """
    step = NEXT_STEPS.get(code, "see the log of cluster {alias}'s brokers")
    if alias is None:
        step = step.replace("cluster {alias}", "the cluster").replace("{alias}.", "")
        who = f"the cluster at bootstrap.servers={servers}"
    else:
        step = step.format(alias=alias)
        who = f"cluster {alias} (bootstrap.servers={servers})"
    return CallError(f"{who} could not {call}: {reason.strip()}; {step}", code)
