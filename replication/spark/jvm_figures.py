"""What the driver's JVM uses of its machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from py4j.java_gateway import JVMView

from replication.java import known_class


@dataclass(frozen=True, slots=True)
class JvmUse:
    """The use since the JVM began.

    Args:
        heap: Bytes that are ``used``, and that may be used at most: ``max``.
        gc_seconds: Spent in collecting garbage.
        cpu_seconds: Of all threads.
    """

    heap: Mapping[str, float]
    gc_seconds: float
    cpu_seconds: float


def jvm_use(jvm: JVMView) -> JvmUse | None:
    """Returns what *jvm* uses; None if our jar is not there."""
    found = known_class(jvm, "replication.plugin.JvmFigures")
    if found is None:
        return None
    used, most, collected_ms, cpu_ns = map(int, str(found.figures()).split("\t"))
    return JvmUse({"used": used, "max": most}, collected_ms / 1e3, cpu_ns / 1e9)
