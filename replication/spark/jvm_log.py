"""The log of the driver's JVM: what Spark and Kafka's clients repeat is limited, and it ends first.

Java does it (`jvm/plugin/LogLimit`), in the executors as well. Where our jar is missing, nothing is
limited.
"""

from typing import Any

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError

from replication.errors import first_line
from replication.java import known_class
from replication.log import Log

log = Log(__name__)


def limit_log(jvm: JVMView) -> None:
    """Limits lines that are repeated, from now on. A platform's own logging stays as it is."""
    if (found := _limit(jvm)) is None:
        return
    try:
        found.install()
    except Py4JError as error:  # another implementation of log4j's interface
        log.debug("log_not_limited", text=first_line(error))


def end_log(jvm: JVMView) -> None:
    """Writes what was counted, and then no line of the JVM: the process's own one is the last."""
    if (found := _limit(jvm)) is not None:
        found.endAll()


def _limit(jvm: JVMView) -> Any:  # noqa: ANN401 - py4j's own
    return known_class(jvm, "replication.plugin.LogLimit")
