"""The figures of the last hours from memory, and of the days before from the table ``figures``."""

from collections.abc import Callable
from dataclasses import dataclass

from replication.model import Flow
from replication.serve.charts import Point
from replication.serve.sight import Sight

Stored = Callable[[Flow, str | None, float], list[tuple[float, dict[str, float | None]]]]
"""The rows of the table for a flow and topic since a time: when, and the figures by name."""


@dataclass(frozen=True, slots=True)
class History:
    """Figures over time.

    Args:
        sight: What is in memory.
        stored: What the table has; None where it is out of reach.
    """

    sight: Sight
    stored: Stored | None = None

    def points(self, flow: Flow, figure: str, topic: str | None, since: float) -> list[Point]:
        """Returns the values of *figure* since a time, the oldest first; None where unknown."""
        recent = self.sight.points(flow, figure, topic, since)
        begins = recent[0][0] if recent else float("inf")
        if self.stored is None or begins <= since:
            return recent
        rows = self.stored(flow, topic, since)
        return [(at, row.get(figure)) for at, row in rows if at < begins] + recent
