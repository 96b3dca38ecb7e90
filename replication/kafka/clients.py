"""Opens the client that a cluster's properties ask for: Java's, or confluent-kafka's.

Java's client connects where the connection is secured in any way: it reads every store, knows
every login module, and is what connects the data. Without security, confluent-kafka does: it
needs no JVM.
"""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from py4j.java_gateway import JVMView

from replication.config.clients.defaults import with_defaults
from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.diagnosis import ClientDiagnostics
from replication.kafka.java_consumer import JavaConsumer
from replication.kafka.java_producer import JavaProducer
from replication.kafka.java_topics import JavaTopics
from replication.kafka.jvm import has_our_classes, shared_jvm

READER: Final = "replication-reader"
WRITER: Final = "replication-writer"
"""client.id of a consumer and a producer whose file names none."""

CONSUMER: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # the last offsets of a span may hold no record
    "queued.min.messages": 1_000,  # per partition; more is seldom needed
    "fetch.queue.backoff.ms": 10,  # by default, a partition with so many pauses for a second
    "fetch.wait.max.ms": 50,  # for the end of a partition that holds nothing more
}


def is_secured(properties: Mapping[str, str]) -> bool:
    """Returns whether the connection has a security protocol other than Kafka's default."""
    return properties.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"


def open_admin(
    properties: Mapping[str, str],
    client_id: str,
    timeout_s: float,
    diagnostics: ClientDiagnostics,
    *,
    prefers_java: bool = False,
) -> Any:  # noqa: ANN401 - one of two classes with the same methods
    """Opens an admin client; both kinds have the methods of confluent-kafka's.

    Raises:
        KafkaException: No client can be created with these properties.
        ConfigError: There is no JVM with our classes, and confluent-kafka cannot connect this way.
        SetupError: Java does not start.
    """
    properties = with_defaults("admin", properties)
    if (jvm := _jvm(properties, is_wanted=prefers_java)) is not None:
        timeout_ms = str(int(timeout_s * 1000))
        own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        return JavaTopics(jvm, {**properties, **own, "client.id": client_id})
    settings: dict[str, Any] = {
        **librdkafka_properties(properties),
        "client.id": client_id,
        "error_cb": diagnostics.on_error,
    }
    logger: Any = diagnostics  # has the only method of a logger that librdkafka calls
    return AdminClient(settings, logger=logger)


def open_consumer(
    properties: Mapping[str, str], isolation: str, diagnostics: ClientDiagnostics
) -> Any:  # noqa: ANN401 - one of two classes with the same methods
    """Opens a consumer that is in no group and commits nothing.

    Raises:
        KafkaException: As `open_admin`.
        ConfigError: As `open_admin`.
        SetupError: As `open_admin`.
    """
    properties = with_defaults("consumer", {"client.id": READER, **properties})
    if (jvm := _jvm(properties)) is not None:
        return JavaConsumer(jvm, {**properties, "isolation.level": isolation})
    settings: dict[str, Any] = {
        "group.id": READER,  # required by librdkafka, never joined
        **librdkafka_properties(properties),
        **CONSUMER,
        "isolation.level": isolation,
        "error_cb": diagnostics.on_error,
    }
    logger: Any = diagnostics
    return Consumer(settings, logger=logger)


def open_producer(
    properties: Mapping[str, str], timeout_s: float, diagnostics: ClientDiagnostics
) -> Any:  # noqa: ANN401 - one of two classes with the same methods
    """Opens an idempotent producer that gives up a record after *timeout_s* seconds.

    Raises:
        KafkaException: As `open_admin`.
        ConfigError: As `open_admin`.
        SetupError: As `open_admin`.
    """
    timeout_ms = str(int(timeout_s * 1000))
    own = {"linger.ms": "0", "delivery.timeout.ms": timeout_ms}  # each answer is awaited
    properties = with_defaults("producer", {"client.id": WRITER, **properties}) | own
    if (jvm := _jvm(properties)) is not None:
        blocking = {"max.block.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        return JavaProducer(jvm, {**properties, **blocking})
    settings: dict[str, Any] = {
        **librdkafka_properties(properties),
        "error_cb": diagnostics.on_error,
        "logger": diagnostics,
    }
    return Producer(settings)


def _jvm(properties: Mapping[str, str], *, is_wanted: bool = False) -> JVMView | None:
    """Returns the JVM whose Java client is to be used; None for confluent-kafka's."""
    if not is_wanted and not is_secured(properties):
        return None
    jvm = shared_jvm()
    return jvm if has_our_classes(jvm) else None
