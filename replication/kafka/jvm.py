"""The JVM of a process: Spark's, or a small one for commands that need a Java client but no Spark.

The small one starts in half a second.
"""

import atexit
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaGateway, JavaObject, JVMView
from py4j.protocol import Py4JError

from replication.config.home import NEEDS_SPARK, OUR_JAR, SERIAL, collector, connector_jars, home
from replication.errors import SetupError
from replication.java import java_class, known_class

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
