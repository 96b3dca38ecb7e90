"""Which partitions of one cluster have no leader that answers, and since when. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from replication.model import Topic, TopicPartition

ELECTION_SECONDS: Final = 3.0
"""So long may a partition be without a leader before that is worth a word."""

OLD_SECONDS: Final = 8.0
"""What was described so long before a broker fell silent does not say whom it led: its partitions
may have moved since. It is as long as it takes to say that a broker is silent."""


@dataclass(frozen=True, slots=True)
class Leaderless:
    """A partition without a leader that answers.

    Args:
        name: As its cluster calls it.
        began: When that began, by a clock of the caller.
        known: Until when that is known to have lasted.
        is_silent: Whether its cluster names a leader, which does not answer.
    """

    name: str
    began: float
    known: float
    is_silent: bool = False


class Leaders:
    """The leaders of a flow's partitions on one of its clusters, look by look.

    Attributes:
        topics: By upstream names, as the cluster described them last. A topic that is not among
            them is not known: what was said of it still holds.
    """

    def __init__(self) -> None:
        self.topics: Mapping[str, Topic] = {}
        self._described = 0.0
        self._said: dict[TopicPartition, Leaderless] = {}
        self._missing_since: dict[TopicPartition, float] = {}

    def describe(self, topics: Mapping[str, Topic], now: float) -> None:
        """Takes the cluster's last description of the flow's topics, by upstream names."""
        self.topics = topics
        self._described = now

    @property
    def said(self) -> frozenset[TopicPartition]:
        """What has no leader that answers, as `look` has said and not taken back."""
        return frozenset(self._said)

    @property
    def silenced(self) -> frozenset[TopicPartition]:
        """What of `said` has a leader by its cluster: who describes it anew does not see that."""
        return frozenset(tp for tp, found in self._said.items() if found.is_silent)

    @property
    def are_there(self) -> bool:
        """Whether each partition had a leader as the cluster described them last."""
        return all(None not in topic.leaders for topic in self.topics.values())

    def leads(self) -> dict[int, TopicPartition]:
        """Returns for each broker that leads one of its partitions, by the cluster's names."""
        found: dict[int, TopicPartition] = {}
        for topic in self.topics.values():
            for number in set(topic.leaders) - found.keys() - {None}:
                if number is not None:
                    found[number] = TopicPartition(topic.name, topic.leaders.index(number))
        return found

    def look(
        self, silent: Mapping[int, float], now: float
    ) -> tuple[dict[TopicPartition, Leaderless], dict[TopicPartition, Leaderless]]:
        """Returns what has begun, and what has ended, since the last look; by upstream partitions.

        Args:
            silent: Since when brokers do not answer, by their ids.
            now: The time.
        """
        lasting = self._leaderless(silent, now)
        begun = {
            tp: found
            for tp, found in lasting.items()
            if tp not in self._said and found.known - found.began >= ELECTION_SECONDS
        }
        ended = {
            tp: found
            for tp, found in self._said.items()
            if tp not in lasting and tp.topic in self.topics
        }
        self._said = {
            tp: replace(lasting.get(tp, own), began=own.began)
            for tp, own in {**begun, **self._said}.items()
            if tp not in ended
        }
        return begun, ended

    def _leaderless(
        self, silent: Mapping[int, float], now: float
    ) -> dict[TopicPartition, Leaderless]:
        silent = {
            number: began
            for number, began in silent.items()
            if began - self._described <= OLD_SECONDS
        }
        found: dict[TopicPartition, Leaderless] = {}
        missing: dict[TopicPartition, float] = {}
        for upstream, topic in self.topics.items():
            if None not in topic.leaders and silent.keys().isdisjoint(topic.leaders):
                continue
            for number, leader in enumerate(topic.leaders):
                tp = TopicPartition(upstream, number)
                name = f"{topic.name}-{number}"
                if leader is None:  # one look may meet an election: only a later one tells
                    missing[tp] = self._missing_since.get(tp, self._described)
                    found[tp] = Leaderless(name, missing[tp], known=self._described)
                elif leader in silent:
                    found[tp] = Leaderless(name, silent[leader], known=now, is_silent=True)
        self._missing_since = missing
        return found
