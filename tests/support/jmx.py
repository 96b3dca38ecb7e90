"""What Kafka's clients of this process's JVM have registered with JMX."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from replication.kafka.jvm import shared_jvm


def attributes(pattern: str, attribute: str) -> dict[str, Any]:
    """The values of *attribute* by the names of the beans that match *pattern*.

    A bean that lacks it, or is gone meanwhile, is left out.
    """
    jvm = shared_jvm()
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    query = jvm.javax.management.ObjectName(pattern)
    kinds = ("javax.management.ObjectName", "javax.management.QueryExp")
    found = {}
    for name in _call(server, "queryNames", kinds, [query, None]):
        kinds_of_read = ("javax.management.ObjectName", "java.lang.String")
        with suppress(Py4JJavaError):
            found[str(name)] = _call(server, "getAttribute", kinds_of_read, [name, attribute])
    return found


def _call(server: Any, method: str, kinds: Sequence[str], arguments: Sequence[Any]) -> Any:  # noqa: ANN401 - any object
    """Calls a method of the interface: the server's own class is closed to reflection."""
    jvm = shared_jvm()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - it has no public name
    types = gateway.new_array(jvm.java.lang.Class, len(kinds))
    values = gateway.new_array(jvm.java.lang.Object, len(arguments))
    for number, (kind, value) in enumerate(zip(kinds, arguments, strict=True)):
        types[number] = jvm.java.lang.Class.forName(kind)
        values[number] = value
    interface = jvm.java.lang.Class.forName("javax.management.MBeanServer")
    return interface.getMethod(method, types).invoke(server, values)
