"""Watches whether the mode of a running generation still fits the task slots. Pure.

Executors come and go. With fewer slots than it needs, a Real-Time query would leave partitions
unread without an error; with more, a flow in micro-batches is slower than it has to be.
"""

from collections.abc import Callable

from replication.model import Mode

LOOK_SECONDS = 5.0
LOOKS = 2
"""So many looks in a row must agree: executors that replace each other are no change."""


class ModeWatch:
    """Compares the mode of a generation with the one that fits now.

    Args:
        mode_now: Chooses the mode; None if there is no choice.
    """

    def __init__(self, mode_now: Callable[[], Mode] | None) -> None:
        self._mode_now = mode_now
        self._differs = 0
        self._look_at = 0.0

    def has_changed(self, mode: Mode, now: float) -> bool:
        """Returns whether another mode than *mode* fits, and did so at the last look.

        Args:
            mode: That of the running generation.
            now: The time by a clock of the caller, in seconds; more frequent calls do nothing.
        """
        if self._mode_now is None or now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        self._differs = self._differs + 1 if self._mode_now() != mode else 0
        if self._differs < LOOKS:
            return False
        self._differs = 0
        return True
