"""Asks the JVM of this process: the user's classes, and whether a client takes properties."""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, cast

from py4j.java_gateway import JavaClass, JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError

from replication.config.clients.java_keys import Role
from replication.config.clients.secrets import is_secret
from replication.errors import SetupError, first_line
from replication.java import java_class, known_class
from replication.kafka.jvm import java_map, shared_jvm
from replication.mm2.policy import CustomClass

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
            message = str(error.java_exception.getMessage())
            if key := next((key for key in properties if is_secret(key) and key in message), None):
                message = f"invalid {key} (value not shown)"
            yield f"{alias}.{role}: {message}"


def _is_taken(config_class: JavaClass, jvm: JVMView, properties: Mapping[str, str]) -> bool:
    """Returns whether Java takes all properties together: one call, not hundreds."""
    try:
        config_class(java_map(jvm, properties))
    except Py4JJavaError:
        return False
    return True


_MADE: Final[dict[CustomClass, JavaObject]] = {}


def class_problems(classes: Iterable[CustomClass]) -> list[str]:
    """Returns one line for each of *classes* that cannot be made, with its key and the next step.

    Raises:
        SetupError: Java does not start.
    """
    problems = []
    for custom in dict.fromkeys(classes):
        jvm = shared_jvm()
        try:
            _made(jvm, custom)
        except SetupError as error:
            problems.append(str(error))
    return problems


def ask_java(custom: CustomClass, method: str, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401
    """Asks a class; `replication.mm2.policy.ask_with` takes this function.

    Raises:
        SetupError: The class is missing, or fails.
    """
    try:
        return getattr(_made(shared_jvm(), custom), method)(*arguments)
    except Py4JError as error:
        asked = f"{method}({', '.join(map(repr, arguments))})"
        raise SetupError(f"{custom.key}: {custom.name}.{asked} failed: {_cause(error)}") from error


def _made(jvm: JVMView, custom: CustomClass) -> JavaObject:
    if custom not in _MADE:
        try:
            loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
            # it tells what is missing
            java_class(jvm, "java.lang.Class").forName(custom.name, True, loader)
            made = reduce(getattr, custom.name.split("."), cast("Any", jvm))()
            made.configure(java_map(jvm, dict(custom.properties)))
        except Py4JError as error:
            raise SetupError(f"{custom.key}: {custom.name}: {_step(error)}") from error
        _MADE[custom] = made
    return _MADE[custom]


def _step(error: Py4JError) -> str:
    text = first_line(error) if isinstance(error, Py4JJavaError) else str(error)
    if "ClassNotFoundException" in text:
        return "no such class; put the jar with it into the environment variable CLIENT_JARS"
    if "NoClassDefFoundError" in text:
        return (
            f"{text}; put the jar with that class into CLIENT_JARS as well, for Kafka's own "
            "interfaces connect-mirror-client, connect-mirror and connect-api from libs/ of Kafka"
        )
    return f"cannot be made: {_cause(error)}"


def _cause(error: Py4JError) -> str:
    if not isinstance(error, Py4JJavaError):
        return str(error)
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return first_line(str(java))
