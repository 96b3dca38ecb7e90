"""The JVM of a process: Spark's, or a small one for commands that need a Java client but no Spark.

The small one starts in half a second.
"""

import atexit
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from py4j.java_gateway import JavaClass, JavaGateway, JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError

from replication.config.client_keys import Role, is_secret
from replication.config.home import NEEDS_SPARK, OUR_JAR, SERIAL, collector, connector_jars, home
from replication.errors import SetupError, first_line
from replication.java import java_class, known_class
from replication.mm2.policy import CustomClass

QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
# As in Spark's JVMs: without it Kafka's client takes every error of Kerberos for a temporary one.
KERBEROS_ERRORS: Final = "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
CLIENT_JARS: Final = "CLIENT_JARS"
"""The environment variable with the paths of jars, separated by commas as in ``--jars``."""

# The logging API comes without an implementation: nothing is logged and nothing starts slowly.
NEEDED_OF_PYSPARK: Final = (
    *("slf4j-api-*", "jackson-core-2*", "jackson-databind-*", "jackson-ann*"),
    *("zstd-jni-*", "lz4-java-*", "snappy-java-*"),  # or compressed records cannot be read
)


def kafka_jars() -> list[Path]:
    """Returns the jars of Java's Kafka client, as set-up has downloaded them.

    Raises:
        SetupError: They are missing.
    """
    client = connector_jars("kafka-clients-*")
    if not client:
        raise SetupError(f"no Kafka client under {home()}: run ./spark-submit.sh --setup first")
    of_pyspark = [jar for name in NEEDED_OF_PYSPARK for jar in pyspark_jars(name)]
    if not of_pyspark:
        raise SetupError(NEEDS_SPARK)
    return [*client, *of_pyspark, OUR_JAR, *user_jars()]


def user_jars() -> list[Path]:
    """Returns the jars of `CLIENT_JARS`: login modules and callback handlers of a configuration."""
    jars = [Path(jar) for jar in os.environ.get(CLIENT_JARS, "").split(",") if jar]
    if missing := [str(jar) for jar in jars if not jar.is_file()]:
        raise SetupError(f"{CLIENT_JARS}: no such file: {', '.join(missing)}; correct that path")
    return jars


def pyspark_jars(name: str = "*") -> list[Path]:
    """Returns the jars called *name*, without ``.jar``, that PySpark brings."""
    spec = find_spec("pyspark")  # importing it would take as long as the JVM's start
    folders = spec.submodule_search_locations if spec else None
    return [jar for folder in folders or () for jar in Path(folder, "jars").glob(f"{name}.jar")]


def is_submitted() -> bool:
    """Returns whether spark-submit started this process: its JVM waits for Python at that port."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


_SHARED: Final[list[JVMView]] = []
_LOCK: Final = threading.Lock()


def java_map(jvm: JVMView, values: Mapping[str, str]) -> JavaObject:
    found = java_class(jvm, "java.util.HashMap")()
    for key, value in values.items():
        found.put(key, value)
    return found


def has_our_classes(jvm: JVMView) -> bool:
    """Returns whether *jvm* has our jar; a platform that forbids jars has Java's clients only."""
    return known_class(jvm, "replication.calls.AdminCalls") is not None


def shared_jvm() -> JVMView:
    """Returns py4j's view of this process's JVM: Spark's, else a small one that lives as long.

    Raises:
        SetupError: Java does not start, or its jars are missing.
    """
    with _LOCK:
        if (jvm := _jvm_of_spark()) is not None:
            return jvm
        if not _SHARED:
            stack = ExitStack()
            _SHARED.append(stack.enter_context(open_jvm(kafka_jars())))
            atexit.register(stack.close)
        return _SHARED[0]


def _jvm_of_spark() -> JVMView | None:
    """Returns the JVM that spark-submit or a session has started; None without importing Spark."""
    if "pyspark" not in sys.modules and not is_submitted():
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - it takes as long as the JVM's start

    context: Any = SparkContext
    if context._jvm is None and is_submitted():  # noqa: SLF001 - it has no public name
        context._ensure_initialized()  # noqa: SLF001 - waits while a session starts
    jvm: JVMView | None = context._jvm  # noqa: SLF001
    return jvm


@contextmanager
def open_jvm(jars: Sequence[Path]) -> Iterator[JVMView]:
    """Yields py4j's view of a JVM with *jars* on its class path; the JVM ends with the block.

    The JVM prints nothing: its stdout and stderr are discarded. It ends with this process as well.

    Raises:
        SetupError: Java does not start.
    """
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else "java"
    py4j = next(iter(pyspark_jars("py4j-*")), "")  # py4j looks for its own if this is empty
    try:
        gateway = JavaGateway.launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(map(str, jars)),
            javaopts=[*QUICK_START, *collector(SERIAL, os.environ), KERBEROS_ERRORS],
            die_on_exit=True,
            java_path=java,
            enable_auth=True,
        )
    except (OSError, ValueError, Py4JError) as error:
        raise SetupError(
            f"cannot start a JVM with {java}: {error}; install a JDK, 17 or newer, or set JAVA_HOME"
        ) from error
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


# Asks the JVM of this process: the user's classes, and whether a client takes properties.

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
