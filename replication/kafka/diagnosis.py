"""Errors of Kafka clients, with cause and next step. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from replication.errors import ClusterError, ReplicationError
from replication.kafka.api import SILENT_LEADER, ClientFailure
from replication.kafka.call import Call
from replication.kafka.security_steps import DENIAL, grant_of, security_of, security_step

# Codes that disappear by themselves: elections, metadata on its way, a broker that restarts.
RETRIABLE: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_LEADER_OR_FOLLOWER",
        "OFFSET_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_LEADER_EPOCH",
    }
)
UNREACHABLE: Final = frozenset({"_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
NOT_FOUND: Final = "UNKNOWN_TOPIC_OR_PARTITION"

NEXT_STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "_INVALID_ARG": "correct that property of cluster {alias}",
        "_RESOLVE": "correct the host name in {alias}.bootstrap.servers, or its DNS entry",
        "_TIMED_OUT": "check that its brokers run, network and firewall, and that their "
        "advertised.listeners can be reached from this machine; or raise "
        "{alias}.admin.default.api.timeout.ms",
        SILENT_LEADER: "check that the broker that leads it runs; see its log",
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
        "INVALID_TOPIC_EXCEPTION": "leave the topic out with topics.exclude, or choose another "
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
        code: As in `ClientFailure`.
        rejected: Why the cluster rejected the single topics of the call, by name. Empty where the
            cluster as a whole failed, so that a call without them would fail as well.
        command: The line that allows it, where the user lacks an ACL.
    """

    def __init__(
        self,
        text: str,
        code: str,
        rejected: Mapping[str, str] = NO_TOPICS,
        command: str = "",
    ) -> None:
        self.code = code
        self.rejected = rejected
        self.command = command
        super().__init__(text)

    @property
    def cause(self) -> str:
        """The ACL that lacks, else the code: texts differ from one attempt to the next.

        Kafka has one code for each kind of ACL that a user lacks, and a client of a topic that it
        may not write gets one of two.
        """
        return self.command or self.code

    @property
    def is_temporary(self) -> bool:
        """Whether the cluster may answer later without intervention: it is down, or elects."""
        return self.code in UNREACHABLE | RETRIABLE | {SILENT_LEADER}

    @property
    def is_denied(self) -> bool:
        """Whether the user lacks an ACL; Kafka's answer stays the same until it has one."""
        return self.code.endswith(DENIAL)


class InterruptedCallError(ReplicationError):
    """This process ended a call, as at a stop or after a lost lease. No cluster is to blame.

    So it is no `ClusterError`: what is tried again, or recorded of a topic or a group, after an
    answer of a cluster has nothing to do with it.
    """

    def __init__(self, alias: str | None, call: Call) -> None:
        cluster = f"cluster {alias}" if alias else "the cluster"
        super().__init__(
            f"{call} was ended by this process, as at a stop or after a lost lease; {cluster} is "
            "not to blame"
        )


def call_error(
    alias: str | None,
    properties: Mapping[str, str],
    call: Call,
    failure: ClientFailure,
    step: str | None = None,
) -> CallError:
    """Returns the error of one failed call.

    Args:
        alias: The cluster's alias, None if it has none.
        properties: The client's, with Java's keys; the text has addresses and security only.
        call: What was tried, with the value.
        failure: What the cluster or the client said.
        step: What the operator does, with ``{alias}`` for the cluster; by default that of *code*.

    Raises:
        InterruptedCallError: *failure* says that this process has ended the call.
    """
    code, reason = failure.code, failure.text
    if code in OWN_END:
        raise InterruptedCallError(alias, call)
    servers = properties.get("bootstrap.servers", "")
    of_security = security_step(code, reason, properties)
    grant = None if step or of_security else grant_of(call, code, servers)
    step = (
        step
        or of_security
        or (grant and grant.step)
        or NEXT_STEPS.get(code, "see the logs of the brokers of cluster {alias}")
    )
    address = f"bootstrap.servers={servers}"
    if of_security or code in SECURITY_CODES:
        address = f"{address}, {security_of(properties)}"
    if alias is None:
        step = step.replace("cluster {alias}", "the cluster").replace("{alias}.", "")
        who = f"the cluster at {address}"
    else:
        step = step.replace("{alias}", alias)  # a group may have braces in its name
        who = f"cluster {alias} ({address})"
    text = f"{who}: {call} failed: {one_line(reason)}; {step}"
    return CallError(text, code, command=grant.command if grant else "")


def one_line(text: str) -> str:
    """Returns *text* without line breaks."""
    return " ".join(text.split())
