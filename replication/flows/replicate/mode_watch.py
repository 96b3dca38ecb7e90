"""Watches whether what runs still fits the task slots. Pure."""

from collections.abc import Callable

LOOK_SECONDS = 5.0
LOOKS = 2
"""This many looks in a row must agree, so that an executor that is replaced is no change."""


class ModeWatch:
    """Asks whether what runs still fits, every few seconds."""

    def __init__(self) -> None:
        self._misfits = 0
        self._look_at = 0.0

    def misfit(self, ask: Callable[[], str], now: float) -> str:
        """Returns why what runs does not fit, if it did not at the last look either; else "".

        Args:
            ask: Says why it does not fit now, "" if it does.
            now: The time by a clock of the caller, in seconds; more frequent calls do nothing.
        """
        if now < self._look_at:
            return ""
        self._look_at = now + LOOK_SECONDS
        text = ask()
        self._misfits = self._misfits + 1 if text else 0
        if self._misfits < LOOKS:
            return ""
        self._misfits = 0
        return text
