"""Asks Java's Kafka client whether it takes a client's properties. Connects to nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from py4j.java_gateway import JavaClass, JVMView
from py4j.protocol import Py4JJavaError

from replication.config.clients.java_keys import Role
from replication.config.clients.secrets import is_secret
from replication.java import known_class
from replication.kafka.jvm import java_map

ABSENT_CLASS: Final = "could not be found."
"""How Java's message ends for a class that only Spark's class path has: a login handler's jar."""

_CLASSES: Final[dict[Role, tuple[str, str]]] = {
    "consumer": ("consumer", "ConsumerConfig"),
    "producer": ("producer", "ProducerConfig"),
    "admin": ("admin", "AdminClientConfig"),
}


def rejected_properties(
    jvm: JVMView, clients: Iterable[tuple[str, Role, Mapping[str, str]]]
) -> list[str]:
    """Returns what Java's clients reject, one line for each property and client.

    Args:
        jvm: Has Kafka's client; without it nothing is rejected.
        clients: The cluster's alias, the kind of client, and all of its properties in Java's key
            space.
    """
    found = (text for client in clients for text in _rejected(jvm, *client))
    return list(dict.fromkeys(found))


def _rejected(jvm: JVMView, alias: str, role: Role, properties: Mapping[str, str]) -> Iterator[str]:
    """Yields what one client rejects: each value on its own, else all of them together."""
    package, name = _CLASSES[role]
    config_class = known_class(jvm, f"org.apache.kafka.clients.{package}.{name}")
    if config_class is None or _is_taken(config_class, jvm, properties):
        return
    java, found = java_map(jvm, properties), False
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


def _is_taken(config_class: JavaClass, jvm: JVMView, properties: Mapping[str, str]) -> bool:
    """Returns whether Java takes all properties together: one call, not hundreds."""
    try:
        config_class(java_map(jvm, properties))
    except Py4JJavaError:
        return False
    return True


def _reason(message: str, properties: Mapping[str, str]) -> str:
    """Returns Java's *message*, without the value if it belongs to a secret."""
    secret = next((key for key in properties if is_secret(key) and key in message), None)
    return f"invalid {secret} (value not shown)" if secret else message
