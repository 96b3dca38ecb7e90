"""What the driver's JVM uses of its machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

JVM_FIGURES: Final = "replication.plugin.JvmFigures"
"""The class that tells it."""


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


def read_use(figures: object) -> JvmUse:
    """Returns what the text of ``JvmFigures.figures`` says."""
    used, most, collected_ms, cpu_ns = map(int, str(figures).split("\t"))
    return JvmUse({"used": used, "max": most}, collected_ms / 1e3, cpu_ns / 1e9)
