"""Logs the figures of each flow once a minute, in one line."""

from typing import Final

from replication.figures.observation import Observation
from replication.log import Log

log = Log(__name__)

EACH_SECONDS: Final = 60.0

FIGURES: Final = {
    "records": "records_total",
    "bytes": "bytes_total",
    "records_per_second": "records_per_second",
    "lag_records": "lag_records",
    "lag_seconds": "lag_seconds",
    "in_flight": "in_flight_records",
}


class Summary:
    """The lines of the flows of one process; a subscriber of their observations."""

    def __init__(self) -> None:
        self._said_at: dict[str, float] = {}

    def __call__(self, observed: Observation) -> None:
        """Logs *observed* if a minute has passed since the flow's last line, or its first look."""
        flow = str(observed.flow)
        said_at = self._said_at.setdefault(flow, observed.clock)
        if observed.ended_at is not None or observed.clock - said_at < EACH_SECONDS:
            return
        self._said_at[flow] = observed.clock
        latency = observed.histograms.get("latency_seconds")
        figures = {name: observed.figures.get(figure) for name, figure in FIGURES.items()}
        log.bind(flow).info(
            "flow_summary",
            state=observed.state,
            health=observed.health,
            **{name: _short(value) for name, value in figures.items()},
            latency_p50=_short(latency.quantile(0.5) if latency else None),
            latency_p99=_short(latency.quantile(0.99) if latency else None),
            generation=observed.generation,
            conditions=",".join(sorted({condition.code for condition in observed.conditions})),
        )


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, 3)
