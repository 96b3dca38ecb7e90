"""What every Kafka client of the mirror begins with, Java's and confluent-kafka's. Pure data.

The file's own properties win. A client adds what its work needs, such as how much it fetches; what
is not about its work stands here, so that all clients of a cluster behave alike. Where MirrorMaker
2 leaves Kafka's default, so does this table, unless a line says why not.
"""

from collections.abc import Mapping
from typing import Final

from replication.config.clients.java_keys import Role

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
    """Returns how many bytes a request of a producer with *properties* may have."""
    return int(with_defaults("producer", properties)["max.request.size"])
