"""Asks Java's Kafka client whether it takes a client's properties. Connects to nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.config.clients.java_keys import Role
from replication.config.clients.secrets import is_secret
from replication.kafka.jvm import java_map, kafka_jars, open_jvm

ABSENT_CLASS: Final = "could not be found."
"""How Java's message ends for a class that only Spark's class path has: a login handler's jar."""

_CLASSES: Final[dict[Role, tuple[str, str]]] = {
    "consumer": ("consumer", "ConsumerConfig"),
    "producer": ("producer", "ProducerConfig"),
    "admin": ("admin", "AdminClientConfig"),
}


def rejected_properties(clients: Iterable[tuple[str, Role, Mapping[str, str]]]) -> list[str]:
    """What Java's clients reject, one line for each property and client.

    Args:
        clients: The cluster's alias, the kind of client, and all of its properties in Java's key
            space.

    Raises:
        SetupError: There is no JVM, or no Kafka client for it.
    """
    with open_jvm(kafka_jars()) as jvm:
        found = (text for client in clients for text in _rejected(jvm, *client))
        return list(dict.fromkeys(found))


def _rejected(jvm: JVMView, alias: str, role: Role, properties: Mapping[str, str]) -> Iterator[str]:
    """What one client rejects: each value by itself, else all of them together."""
    java = java_map(jvm, properties)
    package, name = _CLASSES[role]
    config_class = getattr(getattr(jvm.org.apache.kafka.clients, package), name)
    found = False
    for value in config_class.configDef().validate(java):
        name, messages = str(value.name()), list(value.errorMessages())
        if messages and messages[0].endswith(ABSENT_CLASS):
            java.remove(name)
        elif messages and name in properties:
            found = True
            shown = "invalid (value not shown)" if is_secret(name) else messages[0]
            yield f"{alias}.{role}.{name}: {shown}"
    if not found:
        try:
            config_class(java)
        except Py4JJavaError as error:
            yield f"{alias}.{role}: {_reason(str(error.java_exception.getMessage()), properties)}"


def _reason(message: str, properties: Mapping[str, str]) -> str:
    """Java's *message*, without the value if it belongs to a secret."""
    secret = next((key for key in properties if is_secret(key) and key in message), None)
    return f"invalid {secret} (value not shown)" if secret else message
