"""Which topics are looked at next, and which ones looks have found to be the same. Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from replication.positions.replaced import ComparedIds

SECOND_LOOK: Final = 2
"""Which look after a record was copied counts: a broker may learn of a new topic a moment late."""


class IdLooks:
    """The looks at the topics of running queries, by their numbers.

    A look is at all topics, or at those of which something was copied that no look has checked.

    Attributes:
        begun: How many have begun.
        replaced: Topics that are other ones now, or gone, by upstream names.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.replaced = frozenset[str]()
        self._same: dict[str, int] = {}  # by topic: the last look that found the plan's ids
        self._wanted: dict[str, int] = {}  # by topic: the look that checks what was copied of it
        self._missing = frozenset[str]()  # at the last look at each

    def want(self, topics: Iterable[str]) -> int:
        """Lets *topics* be looked at; returns which look, by number, checks what they are now."""
        number = self.begun + SECOND_LOOK
        self._wanted.update(dict.fromkeys(topics, number))
        return number

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""
        return self._same.get(topic, 0) >= look

    def begin(self, topics: Collection[str], *, is_whole: bool) -> frozenset[str]:
        """Begins the next look, and returns at which of *topics*; no look begins if at none.

        Args:
            topics: All that are there.
            is_whole: Whether it is at all of them, and not only at those that are waited for.
        """
        names = frozenset(topics if is_whole else self._wanted.keys() & topics)
        self.begun += bool(names)
        return names

    def take(self, names: frozenset[str], found: ComparedIds) -> None:
        """Takes what the last look, which was at *names*, has *found*."""
        same = names - found.changed - found.unknown
        self._same.update(dict.fromkeys(same, self.begun))
        self.replaced |= found.others | (found.missing & self._missing)
        self._missing = (self._missing - names) | found.missing
        self._wanted = {
            topic: look for topic, look in self._wanted.items() if not self.is_same(topic, look)
        }
