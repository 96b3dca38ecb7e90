"""Properties of Kafka's clients: Java's keys, which are secret, JAAS, librdkafka's names. Pure."""

# ruff: noqa: SIM905  # a hundred names read better as words

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from replication.errors import ConfigError

MASK: Final = "********"

SPARK_REDACTION: Final = (
    "(?i)secret|password|token|credential|(access|account|encryption)[.]?key|jaas[.]config"
    "|keystore[.]key|private|[.]sas[.]|user[.]info"
)
"""Which settings Spark never shows: its default knows neither JAAS nor keys in PEM nor Azure's."""

_SECRET = re.compile(
    r"password|secret|token(?!\.endpoint)|jaas|passphrase|credential(?!s\.client\.id)"
    r"|(?:keystore|private|ssl|api|encryption)\.?key(?:$|\.pem)|key\.pem"
    r"|(?:access|account)\.?key|\.azure\.sas\.|auth\.user\.info",  # of object storage
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Returns whether the value of *key* must never be shown.

    Certificates are public, keys are not.
    """
    return _SECRET.search(key) is not None


def mask(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: MASK if is_secret(key) else value for key, value in properties.items()}


class ClientProperties(dict[str, str]):
    """Properties of one Kafka client, with Java's keys; the repr masks secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(mask(self))


# Reads ``sasl.jaas.config`` as Kafka's own parser does.
#
# Kafka (`JaasConfig`) uses a ``java.io.StreamTokenizer``. Splitting on blanks, ``=`` or ``;``
# instead would break passwords that contain them.

_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
    |(?P<comment>//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |(?P<quoted>"(?:\\.|[^"\\\r\n])*(?:"|(?=[\r\n])|\Z)|'(?:\\.|[^'\\\r\n])*(?:'|(?=[\r\n])|\Z))
    |(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
    |(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9._$\xa0-\U0010ffff-]*)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """The text is not a JAAS configuration. The message never repeats a value from it."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the module's class name and its options. The repr does not show options."""

    name: str
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def is_string(self) -> bool:
        return self.kind in ("word", "quoted")


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """Returns all login modules in *text*, in order.

    Raises:
        JaasError: The text violates the grammar ``<class> <flag> key=value ... ;``.
    """
    tokens = _tokens(text)
    modules = []
    for first in tokens:
        if not first.is_string:
            raise JaasError(f"expected a login module's class name, found a {first.kind}")
        flag = next(tokens, None)
        if flag is None or flag.text.lower() not in _FLAGS:
            raise JaasError("expected 'required' after the class name")
        modules.append(LoginModule(first.text, _options(tokens)))
    if not modules:
        raise JaasError("no login module found")
    return tuple(modules)


def principal_of(properties: Mapping[str, str]) -> str:
    """Returns the user that logs in by name, as ACLs name it; "" if *properties* have none."""
    try:
        modules = parse_jaas(properties.get("sasl.jaas.config", ""))
    except JaasError:
        return ""
    user = modules[0].options.get("username")
    return f"User:{user}" if user else ""


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key in tokens:
        if key == _Token("symbol", ";"):
            return options
        if not key.is_string or next(tokens, None) != _Token("symbol", "="):
            raise JaasError(f"expected key=value or ';' after option {len(options)}")
        value = next(tokens, None)
        if value is None or not value.is_string:
            raise JaasError(f'option {len(options) + 1} needs double quotes: key="value"')
        options[key.text] = value.text
    raise JaasError("an entry must end with ';'")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "quoted":
            inner = match[0][1:].removesuffix(match[0][0]) if len(match[0]) > 1 else ""
            yield _Token(kind, _ESCAPE.sub(_unescape, inner))
        elif kind not in ("blank", "comment"):
            yield _Token(kind, match[0])


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROLS.get(code, code)


WITH_PASSWORD = ("PlainLoginModule", "ScramLoginModule")


def find_jaas_problem(java: Mapping[str, str]) -> str | None:
    """Returns what is wrong with ``sasl.jaas.config`` in these properties; None if nothing.

    Any login module is allowed: the one that is loaded knows its own options.
    """
    text = java.get("sasl.jaas.config")
    if text is None or not java.get("security.protocol", "").upper().startswith("SASL_"):
        return None
    try:
        modules = parse_jaas(text)
    except JaasError as error:
        return f"invalid, {error} (value not shown)"
    if "sasl.client.callback.handler.class" in java:  # it may bring the credentials
        return None
    for module in modules:
        kind = module.name.rpartition(".")[2]
        missing = [name for name in ("username", "password") if name not in module.options]
        if kind in WITH_PASSWORD and missing:
            return f"{kind} needs {' and '.join(missing)}"
    return None


# The names of the Java clients' properties, by client, from Kafka 3.9 and 4.3.

Role = Literal["consumer", "producer", "admin"]
ROLES: Final[tuple[Role, ...]] = ("consumer", "producer", "admin")

SECURITY: Final = frozenset(
    """
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type
    """.split()
)

_SHARED: Final = frozenset(
    """
    auto.include.jmx.reporter bootstrap.servers client.dns.lookup client.id
    config.providers connections.max.idle.ms enable.metrics.push metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retry.backoff.max.ms retry.backoff.ms security.providers send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    """.split()
)

_CONSUMER: Final = frozenset(
    """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs
    client.rack default.api.timeout.ms enable.auto.commit exclude.internal.topics
    fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
    group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes
    internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode share.acquire.mode value.deserializer
    """.split()
)

_PRODUCER: Final = frozenset(
    """
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level delivery.timeout.ms enable.idempotence
    interceptor.classes key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.class partitioner.ignore.keys retries transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.serializer
    """.split()
)

_ADMIN: Final = frozenset(
    """
    bootstrap.controllers default.api.timeout.ms retries
    """.split()
)

BY_ROLE: Final[dict[Role, frozenset[str]]] = {
    "consumer": SECURITY | _SHARED | _CONSUMER,
    "producer": SECURITY | _SHARED | _PRODUCER,
    "admin": SECURITY | _SHARED | _ADMIN,
}
PRODUCER_ONLY: Final = _PRODUCER
"""Properties that tune a producer, as opposed to those that connect it."""

JAVA_KEYS: Final = SECURITY | _SHARED | _CONSUMER | _PRODUCER | _ADMIN

CHOICES: Final = {
    "isolation.level": ("read_uncommitted", "read_committed"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "auto.offset.reset": ("earliest", "latest"),
    "enable.auto.commit": ("false", "true"),
    "acks": ("all", "-1", "0", "1"),
    "enable.idempotence": ("true", "false"),
}


# What every Kafka client of the mirror begins with, Java's and confluent-kafka's.
#
# The file's own properties win. A client adds what its work needs, such as how much it fetches;
# what is not about its work stands here, so that all clients of a cluster behave alike. Where
# MirrorMaker 2 leaves Kafka's default, so does this table, unless a line says why not.

SIZED_BY_KERNEL: Final = "-1"
"""The size of a socket's buffer: it grows with the speed and the distance. With 128 KiB to send, as
Kafka's default is, and 256 KiB to receive, a record took a quarter more CPU."""

RETRY_MS: Final = "300"

EVERY: Final = {
    # As in MirrorMaker 2 4.x: a client that reaches none of the brokers it knows asks the addresses
    # of bootstrap.servers again, because a cluster may have moved to others of them. Kafka 3.9,
    # which Spark's connector brings, and librdkafka before 2.11 would give up.
    "metadata.recovery.strategy": "rebootstrap",
    # Java's default; librdkafka's ten seconds are all that a flow has to go on after an outage.
    "reconnect.backoff.max.ms": "1000",
    # Java's client begins with its addresses again only when a question for metadata is due while
    # the pause before the next connection lasts. Both pauses grow to a second by default, so that a
    # client may go on for minutes with a broker that is gone.
    "retry.backoff.max.ms": RETRY_MS,
    # A look at the clock in each poll. A flow has many clients, most of them for seconds.
    "enable.metrics.push": "false",
}

DEFAULTS: Final[Mapping[Role, Mapping[str, str]]] = {
    "consumer": {
        **EVERY,
        # Kafka's default would make a deleted topic again, with the broker's count of partitions.
        "allow.auto.create.topics": "false",
        "receive.buffer.bytes": SIZED_BY_KERNEL,
    },
    "producer": {
        **EVERY,
        # A partition's log on the target must always be a prefix of the source's, and a retry must
        # not reorder the syncs of a partition. Idempotence keeps the order over retries; with an
        # endless delivery timeout no batch is given up while the next one is sent.
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "delivery.timeout.ms": "2147483647",
        "linger.ms": "0",
        # The topic's own limit applies, on the broker; the client's of 1 MiB would be lower.
        "max.request.size": "104857600",
        "send.buffer.bytes": SIZED_BY_KERNEL,
    },
    "admin": EVERY,
}

QUICK_RETURN: Final[Mapping[str, str]] = {
    # Behind a firewall that drops packets, a connection is given up and tried anew: a packet that
    # is sent again and again has pauses as long as the outage.
    "socket.connection.setup.timeout.ms": "3000",
    "socket.connection.setup.timeout.max.ms": "3000",
    "reconnect.backoff.ms": "100",
    "reconnect.backoff.max.ms": "1000",
}
"""Of a client that must notice within seconds that a cluster is back; the file's do not win."""


def with_defaults(role: Role, properties: Mapping[str, str]) -> dict[str, str]:
    """Adds the defaults that *properties* of a *role* client, in Java's key space, leave."""
    defaults = dict(DEFAULTS[role])
    if "reconnect.backoff.ms" in properties:  # it may be longer, which librdkafka refuses
        del defaults["reconnect.backoff.max.ms"]
    if "retry.backoff.ms" in properties:  # the same
        del defaults["retry.backoff.max.ms"]
    return {**defaults, **properties}


def most_request_bytes(properties: Mapping[str, str]) -> int:
    return int(with_defaults("producer", properties)["max.request.size"])


# Client properties that the mirror sets itself, so that a file's value has no effect.
#
# The guarantees rest on some of them. MirrorMaker 2's files often weaken these (``acks=1``,
# ``retries=0``): such a file runs, with the mirror's own value and a warning.

_BYTES: Final = "records are copied as bytes"
_NO_GROUP: Final = "the mirror reads without a consumer group"
_ORDER: Final = "so that no record is lost, repeated or reordered"
_UNLIMITED: Final = "2147483647"

_ALWAYS: Final = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "auto.commit.interval.ms": _NO_GROUP,
    "partitioner.class": "a record keeps its partition number",
    "transaction.timeout.ms": "the mirror writes without transactions",
}
_WEAKENED: Final = {
    "interceptor.classes": "the mirror uses its own interceptors; others could alter records",
    "transactional.id": "the mirror writes without transactions",
}
_GUARANTEED: Final = {
    "acks": (r"all|-1", f"the mirror always writes with acks=all, {_ORDER}"),
    "enable.idempotence": (r"(?i:true)", f"the mirror always writes idempotently, {_ORDER}"),
    "retries": (_UNLIMITED, f"the mirror retries without limit, {_ORDER}"),
    "delivery.timeout.ms": (_UNLIMITED, f"the mirror never gives a record up, {_ORDER}"),
    "max.in.flight.requests.per.connection": (
        r"[1-5]",
        f"the mirror has at most 5 requests in flight, {_ORDER}",
    ),
}
"""Property of the producer -> the values that are used as they are, and why others are not."""


def replacement(role: Role | None, name: str, value: str) -> tuple[str, bool] | None:
    """Returns why the mirror does not use *value*, and whether that weakens what the file asks for.

    Args:
        role: The kind of client; None for a property of every client of a cluster.
        name: The property.
        value: Its value in the file.

    Returns:
        None if the value is used. The flag is True for what deserves a warning, not a note.
    """
    if name in _ALWAYS:
        return _ALWAYS[name], False
    if name in _WEAKENED:
        return _WEAKENED[name], True
    if name == "enable.auto.commit" and value.lower() != "false":
        return _NO_GROUP, False
    if name == "allow.auto.create.topics" and value.lower() != "false":
        return "the mirror creates no topic on a source; a deleted one would come back", True
    if role in ("producer", None) and name in _GUARANTEED:
        allowed, reason = _GUARANTEED[name]
        return None if re.fullmatch(allowed, value) else (reason, True)
    return None


def is_replaced(role: Role, name: str, value: str) -> bool:
    """Returns whether the *role* client must not get *value* from the file."""
    return replacement(role, name, value) is not None


# Converts client properties from Java's keys to librdkafka's.
#
# Spark's connector takes Java's keys; confluent-kafka takes librdkafka's, which differ most in how
# credentials are given.


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
