"""The classes that a session must be able to load, checked in the driver's JVM before it starts."""

from collections.abc import Mapping

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.errors import SetupError
from replication.java import java_class
from replication.spark.interceptor import INTERCEPTOR

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"

PACKAGES = {
    CONNECTOR: "the Kafka connector, package spark-sql-kafka-0-10",
    "org.apache.kafka.clients.producer.KafkaProducer": "the Kafka client, package kafka-clients",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": (
        "the connector's consumer pool, package commons-pool2"
    ),
    DELTA: "Delta Lake, package delta-spark",
    "io.delta.storage.LogStore": "Delta Lake's storage, package delta-storage",
}
"""The class that stands for each package, and the package's name."""


def check_packages(jvm: JVMView, packages: Mapping[str, str] = PACKAGES) -> None:
    """Makes sure that the driver can load the Kafka connector and Delta.

    Args:
        jvm: The driver's.
        packages: The class that stands for each package, and how an error names the package.

    Raises:
        SetupError: It cannot; the text names every missing package.
    """
    missing = [text for name, text in packages.items() if not is_loadable(jvm, name)]
    if missing:
        raise SetupError(
            f"Spark's class path lacks {'; '.join(missing)}. Pass the packages with --packages or "
            "their jars with --jars; spark-submit.sh does so"
        )


def check_interceptor(jvm: JVMView) -> None:
    """Makes sure that the driver can load the interceptor.

    Raises:
        SetupError: It cannot.
    """
    if not has_interceptor(jvm):
        raise SetupError(
            f"record.timestamps=preserve needs the class {INTERCEPTOR}, which is not on Spark's "
            "class path: pass replication.jar with --jars (spark-submit.sh does so), or "
            "set record.timestamps=broker"
        )


def has_interceptor(jvm: JVMView) -> bool:
    """Returns whether the driver can load the interceptor."""
    return is_loadable(jvm, INTERCEPTOR)


def is_loadable(jvm: JVMView, name: str) -> bool:
    """Returns whether the driver can load the class *name*."""
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        java_class(jvm, "java.lang.Class").forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True
