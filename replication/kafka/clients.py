"""Opens the client that a cluster's properties ask for: Java's, or confluent-kafka's.

Java's client connects where the connection is secured in any way: it reads every store, knows
every login module, and is what connects the data. Without security, confluent-kafka does: it
needs no JVM.
"""

from collections.abc import Mapping
from typing import Final

from py4j.java_gateway import JVMView

from replication.config.clients.java_keys import with_defaults
from replication.kafka.api import READER, Admin, Records, RecordSender
from replication.kafka.confluent import ConfluentRecords, ConfluentSender, ConfluentTopics
from replication.kafka.java_clients import JavaRecords, JavaSender, JavaTopics
from replication.kafka.jvm import has_our_classes, shared_jvm
from replication.model import Isolation

WRITER: Final = "replication-writer"
"""client.id of a producer whose file names none."""


def is_secured(properties: Mapping[str, str]) -> bool:
    """Returns whether the connection has a security protocol other than Kafka's default."""
    return properties.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"


def open_admin(
    properties: Mapping[str, str], client_id: str, timeout_s: float, *, prefers_java: bool = False
) -> Admin:
    """Opens an admin client.

    Raises:
        ClientError: No client can be created with these properties.
        ConfigError: There is no JVM with our classes, and confluent-kafka cannot connect this way.
        SetupError: Java does not start.
    """
    properties = {**with_defaults("admin", properties), "client.id": client_id}
    if (jvm := _jvm(properties, is_wanted=prefers_java)) is None:
        return ConfluentTopics(properties)
    timeout_ms = str(int(timeout_s * 1000))
    own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
    return JavaTopics(jvm, {**properties, **own})


def open_records(properties: Mapping[str, str], isolation: Isolation) -> Records:
    """Opens a consumer that is in no group and commits nothing; raises as `open_admin` does."""
    properties = with_defaults("consumer", {"client.id": READER, **properties})
    if (jvm := _jvm(properties)) is None:
        return ConfluentRecords(properties, isolation)
    return JavaRecords(jvm, properties, isolation)


def open_sender(properties: Mapping[str, str], timeout_s: float) -> RecordSender:
    """Opens an idempotent producer that gives up a record after *timeout_s* seconds.

    Raises as `open_admin` does.
    """
    timeout_ms = str(int(timeout_s * 1000))
    own = {"linger.ms": "0", "delivery.timeout.ms": timeout_ms}  # each answer is awaited
    properties = with_defaults("producer", {"client.id": WRITER, **properties}) | own
    if (jvm := _jvm(properties)) is None:
        return ConfluentSender(properties)
    blocking = {"max.block.ms": timeout_ms, "request.timeout.ms": timeout_ms}
    return JavaSender(jvm, {**properties, **blocking})


def _jvm(properties: Mapping[str, str], *, is_wanted: bool = False) -> JVMView | None:
    """Returns the JVM whose Java client is to be used; None for confluent-kafka's."""
    if not is_wanted and not is_secured(properties):
        return None
    jvm = shared_jvm()
    return jvm if has_our_classes(jvm) else None
