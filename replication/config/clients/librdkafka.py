"""Converts client properties from Java's keys to librdkafka's. Pure.

Spark's connector takes Java's keys; confluent-kafka takes librdkafka's, which differ most in how
credentials are given.
"""

# ruff: noqa: SIM905  # many names read better as words

from collections.abc import Mapping
from typing import Final

from replication.config.clients.jaas import JaasError, LoginModule, parse_jaas
from replication.config.clients.java_keys import JAVA_KEYS
from replication.errors import ConfigError

_SAME: Final = frozenset(
    """
    acks allow.auto.create.topics batch.size bootstrap.servers check.crcs client.dns.lookup
    client.id client.rack compression.type connections.max.idle.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push fetch.max.bytes fetch.min.bytes
    group.id isolation.level linger.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url security.protocol session.timeout.ms
    socket.connection.setup.timeout.ms ssl.key.password
    """.split()
)
_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_BUFFERS: Final = ("receive.buffer.bytes", "send.buffer.bytes")
_PKCS12_ENDS: Final = (".p12", ".pfx", ".pkcs12")


def librdkafka_properties(java: Mapping[str, str]) -> dict[str, str]:
    """Translates *java* for confluent-kafka: keys renamed, credentials extracted, others dropped.

    Keys that Java does not have are kept: they may be librdkafka's own.

    Raises:
        ConfigError: A value has no equivalent, such as a JKS file; the text says what to use.
    """
    converted, problems = convert(java)
    if problems:
        raise ConfigError("Kafka client properties", problems)
    return converted


def convert(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Converts as `librdkafka_properties` does, but returns all problems, each after its key."""
    converted: dict[str, str] = {}
    for key, value in java.items():
        if key in _SAME or key not in JAVA_KEYS:
            converted[key] = value
        elif key in _RENAMED:
            converted[_RENAMED[key]] = value
    for key in _BUFFERS:
        if java.get(key) == "-1":  # the kernel's own size
            converted[_RENAMED[key]] = "0"
    if (memory := java.get("buffer.memory", "")).isdecimal():
        converted["queue.buffering.max.kbytes"] = str(max(1, int(memory) // 1024))
    if (reset := java.get("auto.offset.reset")) is not None:
        converted["auto.offset.reset"] = "error" if reset == "none" else reset
    if (algorithm := java.get("ssl.endpoint.identification.algorithm")) is not None:
        converted["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    problems: list[str] = []
    is_tls = java.get("security.protocol", "").upper().endswith("SSL")
    for part in (*((_truststore, _keystore) if is_tls else ()), _sasl):
        properties, problem = part(java)
        converted.update(properties)
        problems += [problem] if problem else []
    return converted, problems


_Part = tuple[dict[str, str], str | None]


def _truststore(java: Mapping[str, str]) -> _Part:
    location = java.get("ssl.truststore.location")
    kind = java.get("ssl.truststore.type", "JKS").upper()
    if not location:
        return {}, None
    if kind == "PEM":
        return {"ssl.ca.location": location}, None
    return {}, (
        f"ssl.truststore.location: {location!r} is a {kind} file, which confluent-kafka cannot "
        "read; export the certificates to a .pem file (keytool -exportcert -rfc -alias ALIAS "
        "-keystore FILE) and use that file with ssl.truststore.type: PEM"
    )


def _keystore(java: Mapping[str, str]) -> _Part:
    location = java.get("ssl.keystore.location")
    kind = java.get("ssl.keystore.type", "JKS").upper()
    if not location:
        return {}, None
    if kind == "PEM":  # key and certificates in one file, as Java wants it
        return {"ssl.key.location": location, "ssl.certificate.location": location}, None
    if kind == "PKCS12" or location.lower().endswith(_PKCS12_ENDS):
        password = java.get("ssl.keystore.password")
        return {
            "ssl.keystore.location": location,
            **({"ssl.keystore.password": password} if password is not None else {}),
        }, None
    return {}, (
        f"ssl.keystore.location: {location!r} is a {kind} file, which confluent-kafka cannot read; "
        "convert it (keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 "
        "-deststoretype PKCS12) and use that file with ssl.keystore.type: PKCS12"
    )


def _sasl(java: Mapping[str, str]) -> _Part:
    mechanism = java.get("sasl.mechanism", "GSSAPI").upper()
    if not java.get("security.protocol", "").upper().startswith("SASL_"):
        return {}, None
    if mechanism == "AWS_MSK_IAM":
        return {}, (
            "sasl.mechanism: AWS_MSK_IAM is available in Java only; use SCRAM-SHA-512, or "
            "OAUTHBEARER with a token endpoint"
        )
    text = java.get("sasl.jaas.config")
    if text is None:
        return _oidc(java, {}) if mechanism == "OAUTHBEARER" else ({}, None)
    try:
        modules = parse_jaas(text)
    except JaasError as error:
        return {}, f"sasl.jaas.config: invalid, {error} (value not shown)"
    for module in modules:
        if (part := _credentials(module, java)) is not None:
            return part
    return {}, (
        f"sasl.jaas.config: login module {modules[0].name!r} has no equivalent in "
        "confluent-kafka; use PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule"
    )


def _credentials(module: LoginModule, java: Mapping[str, str]) -> _Part | None:
    options = module.options
    kind = module.name.rpartition(".")[2]
    if kind in ("PlainLoginModule", "ScramLoginModule"):
        missing = [name for name in ("username", "password") if name not in options]
        if missing:
            return {}, f"sasl.jaas.config: {kind} needs {' and '.join(missing)}"
        return {"sasl.username": options["username"], "sasl.password": options["password"]}, None
    if kind == "OAuthBearerLoginModule":
        return _oidc(java, options)
    if kind == "Krb5LoginModule":
        names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
        return {names[key]: value for key, value in options.items() if key in names}, None
    return None


def _oidc(java: Mapping[str, str], options: Mapping[str, str]) -> _Part:
    """Reads credentials for a token endpoint; JAAS options win over properties, as in Java."""
    if "sasl.oauthbearer.token.endpoint.url" not in java:
        subject = options.get("unsecuredLoginStringClaim_sub")
        if subject is not None:  # development only, as in Java
            unsecured = {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={subject}",
            }
            return unsecured, None
        return {}, "sasl.oauthbearer.token.endpoint.url: missing; set the URL that issues tokens"
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    extensions = ",".join(
        f"{key.removeprefix('extension_')}={value}"
        for key, value in options.items()
        if key.startswith("extension_")
    )
    return {
        "sasl.oauthbearer.method": "oidc",
        **{
            f"sasl.oauthbearer.{names[key]}": value
            for key, value in options.items()
            if key in names
        },
        **({"sasl.oauthbearer.extensions": extensions} if extensions else {}),
    }, None
