"""Topics whose records wait for an id of a schema in vain: found by a thread, read by the loop."""

from collections.abc import Callable, Collection, Mapping
from threading import Lock

Again = Callable[[str], str | None]
"""Tries again for a topic; why it is still in vain, None if it is not."""


class RefusedSchemas:
    """Why topics of a flow cannot go on, by their names on the source.

    Attributes:
        copied: The topic of the source for each remote topic whose records carry ids.
        waiting: The topics whose records wait now, in vain or for a moment.
    """

    def __init__(self) -> None:
        self.copied: dict[str, str] = {}
        self.waiting = frozenset[str]()
        self._reasons: dict[str, str] = {}
        self._again: Again = lambda _: None
        self._lock = Lock()

    def begin(self, again: Again) -> None:
        """Forgets all reasons; *again* is asked from now on."""
        with self._lock:
            self._reasons = {}
            self._again = again

    def add(self, topic: str, reason: str) -> None:
        """Notes why *topic* cannot go on."""
        with self._lock:
            self._reasons[topic] = reason

    def of(self, topics: Collection[str]) -> Mapping[str, str]:
        """Returns why those of *topics* cannot go on of which that is so."""
        with self._lock:
            return {topic: text for topic, text in self._reasons.items() if topic in topics}

    def try_again(self, topics: Collection[str]) -> Mapping[str, str]:
        """Returns why *topics* still cannot go on, after trying again; forgets the others."""
        for topic in self.of(topics):
            reason = self._again(topic)
            with self._lock:
                self._reasons.pop(topic, None)
                if reason is not None:
                    self._reasons[topic] = reason
        return self.of(topics)
