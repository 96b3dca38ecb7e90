"""The names of the Java clients' properties, by client, from Kafka 3.9 and 4.3. Pure data."""

import re
from collections.abc import Mapping
from typing import Final, Literal

# ruff: noqa: SIM905  # a hundred names read better as words


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
