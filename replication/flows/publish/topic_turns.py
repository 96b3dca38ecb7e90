"""Which topics' figures are written next: those that changed, the longest unsent first. Pure.

A flow may have thousands of topics, so what is written for them is bounded, and each has its turn.
The few that do not keep up come before the others, and have up to half of the bytes.
"""

from collections.abc import Collection, Mapping
from typing import Final

from replication.figures.observation import Observation

BYTES_PER_SECOND: Final = 2_000
BURST_SECONDS: Final = 10.0
"""For how long what was not used is saved up; one record may be larger than a second's share."""

MOST_URGENT: Final = 20


def urgent_topics(observed: Observation) -> list[str]:
    """Returns the topics that do not keep up, those that lag most, of very many.

    What an operator has paused lags by far, and takes the place of none.
    """
    behind = [topic for topic in observed.topics if topic.state not in {"copying", "paused"}]
    behind.sort(key=lambda topic: topic.figures.get("lag_seconds", 0.0), reverse=True)
    return [topic.topic for topic in behind[:MOST_URGENT]]


class TopicTurns:
    """The turns of one flow's topics.

    Args:
        now: The time, in monotonic seconds; what is passed later is on the same clock.
    """

    def __init__(self, now: float) -> None:
        self._budget = BYTES_PER_SECOND * BURST_SECONDS
        self._at = now
        self._sent: dict[str, bytes] = {}  # the longest unsent first
        self._was_urgent = set[str]()  # when it was sent, so that its end is told soon as well

    def take(
        self, values: Mapping[str, bytes], now: float, urgent: Collection[str] = ()
    ) -> dict[str, bytes | None]:
        """Returns what is written now, by topic; None for one that is not replicated any more.

        Args:
            values: Of all topics.
            now: The time.
            urgent: The topics that do not keep up.
        """
        earned = (now - self._at) * BYTES_PER_SECOND
        self._budget = min(self._budget + earned, BYTES_PER_SECOND * BURST_SECONDS)
        self._at = now
        found: dict[str, bytes | None] = {}
        for topic in [topic for topic in self._sent if topic not in values]:
            del self._sent[topic]
            found[topic] = None
        order = [topic for topic in values if topic not in self._sent]
        order += [topic for topic in self._sent if self._sent[topic] != values[topic]]
        first = [topic for topic in order if topic in urgent or topic in self._was_urgent]
        taken = self._take(first, values, self._budget / 2)
        taken |= self._take([topic for topic in order if topic not in taken], values, 0.0)
        self._was_urgent = {
            topic
            for topic in {*self._was_urgent, *taken} & values.keys()
            if topic in urgent or topic not in taken
        }
        return found | taken

    def _take(
        self, topics: Collection[str], values: Mapping[str, bytes], left: float
    ) -> dict[str, bytes]:
        """Returns the values of the first of *topics*, until no more bytes than that are *left*."""
        taken: dict[str, bytes] = {}
        for topic in topics:
            if self._budget <= max(left, 0.0):
                break
            self._budget -= len(values[topic])
            self._sent.pop(topic, None)
            self._sent[topic] = taken[topic] = values[topic]  # now the last one
        return taken

    def forget(self) -> None:
        """Lets every topic be written again: the status topic has lost what was written."""
        self._sent.clear()
