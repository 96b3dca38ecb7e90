"""What the driver's JVM has added up of the executors' reports, for one flow."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from py4j.java_gateway import JVMView

from replication.figures.histogram import BOUNDS, Histogram
from replication.java import java_class, known_class
from replication.model import Flow
from replication.spark.acknowledged import DRIVER_REPORTS
from replication.spark.jvm_figures import JVM_FIGURES, JvmUse, read_use
from replication.spark.limits import LimitUse, read_uses

LOOK_SECONDS: Final = 1.0
"""How long a look at all flows lasts at most, for which the JVM is asked once what it uses."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The reports of a flow's executors since the process began.

    Args:
        executors: How many live.
        silent_seconds: The longest time since one of them was heard.
        in_flight: Records that are sent and not acknowledged.
        tasks: Tasks that run.
        all_tasks: Those of all flows of the process.
        transfer: From handing over to acknowledgement.
        latencies: From the timestamp to acknowledgement, of the remote topics that have changed
            since the last call.
        throttles: How long a quota makes a request of a client wait, by ``client.id``, in seconds.
        use: What the driver's JVM uses; None if nobody asked it.
        limits: How the flow's limits are used, in the order in which they were set.
    """

    executors: int
    silent_seconds: float
    in_flight: int
    tasks: int
    all_tasks: int
    transfer: Histogram
    latencies: Mapping[str, Histogram] = field(default_factory=dict)
    throttles: Mapping[str, float] = field(default_factory=dict)
    use: JvmUse | None = None
    limits: tuple[LimitUse, ...] = ()


class ReportedFigures:
    """The reports of the executors of this process's Spark, if they report.

    Args:
        jvm: The driver's, in which Spark may start later.
    """

    def __init__(self, jvm: JVMView) -> None:
        driver = known_class(jvm, DRIVER_REPORTS)
        self._java = None if driver is None else _Java.of(driver, jvm)
        self._is_loaded = False
        self._use: tuple[float, JvmUse] | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether executors report: from the start of Spark to the end of the process."""
        if self._java is not None and not self._is_loaded:
            self._is_loaded = bool(self._java.is_loaded())
        return self._is_loaded

    def now(self) -> int:
        """Returns a time to give to `have_reported`."""
        return 0 if self._java is None else int(self._java.now())

    def have_reported(self, since: int) -> bool:
        """Returns whether each executor that lives has reported what it did up to *since*."""
        return self._java is None or bool(self._java.have_reported(since))

    def of(self, flow: Flow) -> Reported | None:
        """Returns what is known of *flow*; None if executors do not report."""
        if self._java is None or not self.is_loaded:
            return None
        found = parse(str(self._java.figures(str(flow))))
        limits = read_uses(self._java.limits(str(flow)))
        return replace(found, use=self._use_of(self._java), limits=tuple(limits))

    def _use_of(self, java: "_Java") -> JvmUse:
        """Returns what the JVM uses now; the flows of one look are asked one after the other."""
        now = time.monotonic()
        if self._use is None or now - self._use[0] >= LOOK_SECONDS:
            self._use = now, read_use(java.use())
        return self._use[1]


class _Java(NamedTuple):
    """The methods that a look calls: py4j asks Java for a static one whenever it is named."""

    is_loaded: Callable[[], Any]
    now: Callable[[], Any]
    have_reported: Callable[[int], Any]
    figures: Callable[[str], Any]
    limits: Callable[[str], Any]
    use: Callable[[], Any]

    @classmethod
    def of(cls, driver: Any, jvm: JVMView) -> "_Java":  # noqa: ANN401 - py4j's own
        return cls(
            driver.isLoaded, driver.now, driver.haveReported, driver.figures, driver.limits,
            java_class(jvm, JVM_FIGURES).figures,
        )  # fmt: skip


def parse(text: str) -> Reported:
    """Returns what the *text* of ``DriverReports.figures`` says."""
    first, *others = (line.split("\t") for line in text.splitlines())
    executors, silent_ms, in_flight, tasks, all_tasks = map(int, first[1:])
    transfer, latencies, throttles = Histogram.of([0] * _BUCKETS, 0.0), {}, {}
    for kind, *fields in others:
        if kind == "transfer":
            transfer = _histogram(fields[0])
        elif kind == "latency":
            latencies[fields[0]] = _histogram(fields[1])
        else:
            throttles[fields[1]] = int(fields[0]) / 1000
    return Reported(
        executors,
        silent_ms / 1000,
        in_flight,
        tasks,
        all_tasks,
        transfer,
        latencies,
        throttles,
    )


_BUCKETS: Final = len(BOUNDS) + 1


def _histogram(text: str) -> Histogram:
    micros, *counted = text.split(",")
    buckets = [0] * _BUCKETS
    for each in counted:
        bucket, count = each.split(":")
        buckets[int(bucket)] = int(count)
    return Histogram.of(buckets, int(micros) / 1e6)
