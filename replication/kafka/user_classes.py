"""Asks the user's Java classes, in the JVM that this process has or starts for it."""

from collections.abc import Iterable
from functools import reduce
from typing import Any, Final, cast

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError

from replication.errors import SetupError, first_line
from replication.java import java_class
from replication.kafka.jvm import java_map, shared_jvm
from replication.mm2.custom import CustomClass

_MADE: Final[dict[CustomClass, JavaObject]] = {}


def class_problems(classes: Iterable[CustomClass]) -> list[str]:
    """Returns one line for each of *classes* that cannot be made, with its key and the next step.

    Raises:
        SetupError: Java does not start.
    """
    problems = (_problem(custom) for custom in dict.fromkeys(classes))
    return [problem for problem in problems if problem]


def _problem(custom: CustomClass) -> str:
    jvm = shared_jvm()
    try:
        _made(jvm, custom)
    except SetupError as error:
        return str(error)
    return ""


def ask_java(custom: CustomClass, method: str, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401
    """Asks a class; `replication.mm2.custom.ask_with` takes this function.

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
            java_class(jvm, "java.lang.Class").forName(
                custom.name, True, loader
            )  # it tells what is missing
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
