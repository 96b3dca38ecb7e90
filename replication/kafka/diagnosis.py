"""Errors of Kafka clients, with cause and next step. Pure."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from replication.errors import ClusterError, ReplicationError
from replication.kafka.api import READER, SILENT_LEADER, Call, ClientFailure

TRUSTSTORE: Final = "ssl.truststore.location"
KEYSTORE: Final = "ssl.keystore.location"

# What an operator does about a connection that a cluster or a client refuses: the clients' texts
# name Java's exceptions, a step names the property in the file. The first pattern found decides.
STEPS: Final[tuple[tuple[str, str], ...]] = (
    (
        r"NotAfter|validity check failed|certificate_expired|certificate has expired",
        (
            "the certificate has expired: renew that of the brokers of cluster {alias}, or, if the "
            "broker rejected it, the one in {alias}.ssl.keystore.location"
        ),
    ),
    (r"NotBefore", "check the clock of this machine and the certificate of cluster {alias}"),
    (
        r"subject alternative|No name matching|hostname mismatch|IP address mismatch",
        (
            "write a name that is in the broker's certificate into {alias}.bootstrap.servers and "
            "the broker's advertised.listeners, or set "
            "{alias}.ssl.endpoint.identification.algorithm to nothing"
        ),
    ),
    (
        r"certification path|PKIX|trust anchor|TrustAnchor|trustAnchors|certificate verify failed",
        (
            "put the certificate of the CA that signed the broker's into "
            "{alias}.ssl.truststore.location"
        ),
    ),
    (
        (
            r"certificate_required|bad_certificate|certificate_unknown|unknown_ca|handshake_failure|"
            r"Empty client certificate|null cert chain"
        ),
        "the broker wants a client certificate that it trusts: set {alias}.ssl.keystore.location",
    ),
    (
        r"PBES2",
        "Java reads no such key; encrypt it again: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES",
    ),
    (
        r"protocol_version|No appropriate protocol|cipher",
        (
            "allow a version or cipher that the broker has: {alias}.ssl.enabled.protocols, "
            "{alias}.ssl.cipher.suites"
        ),
    ),
    (
        (
            r"(?:NoClassDefFound|ClassNotFound|LoginModule).*software[./]amazon[./]msk|"
            r"software[./]amazon[./]msk.*could not be found"
        ),
        (
            "./spark-submit.sh --setup msk fetches aws-msk-iam-auth-*-all.jar into "
            ".local/jars/msk; put its path into the environment variable CLIENT_JARS"
        ),
    ),
    (
        (
            r"No LoginModule found|unable to find LoginModule|could not be found|ClassNotFound|"
            r"NoClassDefFound"
        ),
        "put the jar with that class into the environment variable CLIENT_JARS",
    ),
    (
        r"oauthbearer\.allowed\.urls",
        (
            "allow the URL: JDK_JAVA_OPTIONS=-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=URL, "
            "and the same in spark.executor.extraJavaOptions"
        ),
    ),
    (
        r"token endpoint|HTTP response|UnretryableException",
        (
            "check {alias}.sasl.oauthbearer.token.endpoint.url and clientId and clientSecret in "
            "{alias}.sasl.jaas.config"
        ),
    ),
    (
        (
            r"Cannot locate KDC|Cannot locate default realm|KrbException: Cannot|Receive timed out|"
            r"Cannot get kdc|krb5"
        ),
        (
            "name the krb5.conf that has the realm's KDC: JDK_JAVA_OPTIONS="
            "-Djava.security.krb5.conf=/path, and the same in spark.executor.extraJavaOptions"
        ),
    ),
    (
        (
            r"Client not found in Kerberos|Unable to obtain password|keytab|Checksum failed|"
            r"Pre-authentication|asked for a password"
        ),
        "check keyTab and principal in {alias}.sasl.jaas.config (klist -k FILE)",
    ),
    (
        r"Server not found in Kerberos|LOOKING_UP_SERVER",
        (
            "check {alias}.sasl.kerberos.service.name, and that {alias}.bootstrap.servers has the "
            "host name of the broker's principal"
        ),
    ),
    (
        r"Unexpected handshake request|[Uu]nsupported.*mechanism|mechanism.*not enabled",
        (
            "set {alias}.sasl.mechanism to a mechanism that this listener has enabled, or "
            "{alias}.security.protocol without SASL_"
        ),
    ),
    (
        r"JAAS|JAas|sasl\.jaas\.config|LoginException|login module",
        "correct {alias}.sasl.jaas.config",
    ),
)
DENIAL: Final = "_AUTHORIZATION_FAILED"

AUTHENTICATION: Final = "check {alias}.sasl.mechanism and the user and password it uses"
TLS: Final = "check {alias}.security.protocol, the {alias}.ssl.* files and the host's name"

CODES: Final = frozenset({"_AUTHENTICATION", "_INVALID_ARG", "_SSL"})


def security_step(code: str, reason: str, properties: Mapping[str, str]) -> str | None:
    """Returns what to do about *reason*, with ``{alias}`` for the cluster; None if unknown."""
    if code not in CODES:
        return None
    for key in (TRUSTSTORE, KEYSTORE):
        if (path := properties.get(key)) and path in reason:
            rest = key.removesuffix("location")
            return f"check {{alias}}.{key}, {{alias}}.{rest}type and {{alias}}.{rest}password"
    if "ssl" in reason.lower() and re.search(r"password|key", reason) and code == "_INVALID_ARG":
        return "check {alias}.ssl.keystore.*, {alias}.ssl.truststore.* and {alias}.ssl.key.password"
    for pattern, step in STEPS:
        if re.search(pattern, reason):
            return step
    return {"_AUTHENTICATION": AUTHENTICATION, "_SSL": TLS}.get(code)


def grant_of(call: Call, code: str, servers: str) -> tuple[str, str]:
    """Returns what allows a *call* that was refused; "" twice if *code* is not a refusal.

    That is the step for an operator, with ``{alias}`` for the cluster, and the line of
    ``kafka-acls`` in it: "" where none is known.
    """
    if not code.endswith(DENIAL):
        return "", ""
    if not call.operation or not call.name:
        step = "python -m replication acls FILE prints the ACLs that are needed on cluster {alias}"
        return step, ""
    operation, resource = call.operation, f"--{call.kind} '{call.name}'"
    if code.startswith("GROUP") and call.kind != "group":
        # confluent-kafka's consumer names it and never joins it
        operation, resource = "Describe", f"--group {READER}"
    command = (
        f"kafka-acls --bootstrap-server {servers} --add "
        f"--allow-principal User:YOURS --operation {operation} {resource}"
    )
    more = "python -m replication acls FILE prints all that is needed"
    return f"allow {operation}: {command} ({more})", command


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
BAD_FACTOR: Final = "INVALID_REPLICATION_FACTOR"
TOO_LARGE: Final = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""Of one record, which is rejected whatever the others are."""

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
        NOT_FOUND: "create that topic or partition on cluster {alias}, or leave it out",
        "INVALID_CONFIG": "correct the topic's configuration, or create the topic by hand",
        "LEADER_NOT_AVAILABLE": "start the brokers of cluster {alias} that are down",
        BAD_FACTOR: "set replication.factor to at most the number of brokers of "
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
    granting, command = ("", "") if step or of_security else grant_of(call, code, servers)
    step = (
        step
        or of_security
        or granting
        or NEXT_STEPS.get(code, "see the logs of the brokers of cluster {alias}")
    )
    address = f"bootstrap.servers={servers}"
    if of_security or code in SECURITY_CODES:
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        address = f"{address}, security.protocol={protocol}"
        if protocol.startswith("SASL_"):
            address = f"{address}, sasl.mechanism={properties.get('sasl.mechanism', 'GSSAPI')}"
    if alias is None:
        step = step.replace("cluster {alias}", "the cluster").replace("{alias}.", "")
        who = f"the cluster at {address}"
    else:
        step = step.replace("{alias}", alias)  # a group may have braces in its name
        who = f"cluster {alias} ({address})"
    reason = " ".join(reason.split())  # without line breaks
    return CallError(f"{who}: {call} failed: {reason}; {step}", code, command=command)
