"""What an operator does about a connection that a cluster or a client refuses. Pure.

The clients' texts name Java's exceptions; a step names the property in the file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replication.kafka.call import Call

TRUSTSTORE: Final = "ssl.truststore.location"
KEYSTORE: Final = "ssl.keystore.location"

# The first pattern that is found decides.
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
    """Returns what to do about *reason*, with ``{alias}`` for the cluster; None if not known here.

    Args:
        code: The client's name of the error.
        reason: The client's or the broker's text.
        properties: The client's properties, with Java's keys.
    """
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


@dataclass(frozen=True, slots=True)
class Grant:
    """What allows a call that was refused.

    Args:
        step: For an operator, with ``{alias}`` for the cluster.
        command: The line of ``kafka-acls`` in it; empty where none is known.
    """

    step: str
    command: str = ""


def grant_of(call: Call, code: str, servers: str) -> Grant | None:
    """Returns what allows *call*; None if *code* is not a refusal."""
    if not code.endswith(DENIAL):
        return None
    if not call.operation or not call.name:
        return Grant(
            "python -m replication acls FILE prints the ACLs that are needed on cluster {alias}"
        )
    operation, resource = call.operation, f"--{call.kind} '{call.name}'"
    if code.startswith("GROUP") and call.kind != "group":
        # confluent-kafka's consumer names it and never joins it
        operation, resource = "Describe", "--group replication-reader"
    command = (
        f"kafka-acls --bootstrap-server {servers} --add "
        f"--allow-principal User:YOURS --operation {operation} {resource}"
    )
    more = "python -m replication acls FILE prints all that is needed"
    return Grant(f"allow {operation}: {command} ({more})", command)


def security_of(properties: Mapping[str, str]) -> str:
    """Returns the protocol and the mechanism of a client, for its errors."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    sasl = f", sasl.mechanism={mechanism}" if protocol.startswith("SASL_") else ""
    return f"security.protocol={protocol}{sasl}"
