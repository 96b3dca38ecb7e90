"""Which topics' figures are written next: those that changed, the longest unsent first. Pure.

A flow may have thousands of topics, so what is written for them is bounded, and each has its turn.
"""

from collections.abc import Mapping
from typing import Final

BYTES_PER_SECOND: Final = 2_000
BURST_SECONDS: Final = 10.0
"""For how long what was not used is saved up; one record may be larger than a second's share."""


class TopicTurns:
    """The turns of one flow's topics.

    Args:
        now: The time, in monotonic seconds; what is passed later is on the same clock.
    """

    def __init__(self, now: float) -> None:
        self._budget = BYTES_PER_SECOND * BURST_SECONDS
        self._at = now
        self._sent: dict[str, bytes] = {}  # the longest unsent first

    def take(self, values: Mapping[str, bytes], now: float) -> dict[str, bytes | None]:
        """Returns what is written now, by topic; None for one that is not replicated any more.

        Args:
            values: Of all topics.
            now: The time.
        """
        earned = (now - self._at) * BYTES_PER_SECOND
        self._budget = min(self._budget + earned, BYTES_PER_SECOND * BURST_SECONDS)
        self._at = now
        found: dict[str, bytes | None] = {}
        for topic in [topic for topic in self._sent if topic not in values]:
            del self._sent[topic]
            found[topic] = None
        new = [topic for topic in values if topic not in self._sent]
        for topic in [*new, *self._sent]:
            if self._budget <= 0:
                break
            if self._sent.get(topic) != values[topic]:
                self._budget -= len(values[topic])
                self._sent.pop(topic, None)
                self._sent[topic] = values[topic]  # now the last one
                found[topic] = values[topic]
        return found

    def forget(self) -> None:
        """Lets every topic be written again: the status topic has lost what was written."""
        self._sent.clear()
