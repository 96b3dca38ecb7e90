"""The limits of flows in the executors: set in the driver's JVM, which answers their reports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from replication.config.limits import Limit
from replication.java import java_class
from replication.model import Flow
from replication.spark.acknowledged import DRIVER_REPORTS

NO_RATE: Final = -1
ALL_TOPICS: Final = "*"


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How a limit is used: over the last seconds, and whether records wait for it now."""

    bytes_per_second: float
    records_per_second: float
    is_waiting: bool


def set_limits(
    jvm: Any,  # noqa: ANN401 - py4j's own view of a JVM
    flow: Flow,
    limits: Iterable[tuple[Limit, Mapping[str, str]]],
) -> bool:
    """Sets all limits of *flow*; executors hear of them by the answers to their next reports.

    Args:
        jvm: The driver's.
        flow: Which.
        limits: Each with the upstream topics that it covers, and their remote ones; those of the
            limit of a whole flow do not count.

    Returns:
        Whether they are news.
    """
    lines = "\n".join(_line(limit, topics) for limit, topics in limits)
    return bool(java_class(jvm, DRIVER_REPORTS).limit(str(flow), lines))


def _line(limit: Limit, topics: Mapping[str, str]) -> str:
    rates = (limit.bytes_per_second or NO_RATE, limit.records_per_second or NO_RATE)
    pairs = sorted(f"{remote}:{upstream}" for upstream, remote in topics.items())
    names = ALL_TOPICS if limit.topics is None else ",".join(pairs)
    return "\t".join((*map(str, rates), names))


def limit_uses(jvm: Any, flow: Flow) -> list[LimitUse]:  # noqa: ANN401 - as above
    """Returns how the limits of *flow* are used, in the order in which they were set."""
    return read_uses(java_class(jvm, DRIVER_REPORTS).limits(str(flow)))


def read_uses(limits: object) -> list[LimitUse]:
    """Returns what the text of ``DriverReports.limits`` says."""
    lines = str(limits).splitlines()
    return [
        LimitUse(float(size), float(count), int(waiting) > 0)
        for size, count, waiting in (line.split("\t") for line in lines)
    ]
