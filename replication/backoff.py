"""How long to wait after failures in a row: longer each time, up to a bound. Pure."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 60
"""Far beyond every bound, and no overflow."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A pause that doubles with each failure in a row.

    Args:
        first_seconds: The pause after a first failure.
        longest_seconds: The longest pause.
    """

    first_seconds: float
    longest_seconds: float

    def after(self, failures: int) -> float:
        """Returns the seconds to wait after this many *failures* in a row, one or more."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings)
