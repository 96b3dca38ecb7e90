"""Looks whether the topics of running queries are still those of their plan.

Kafka's clients do not notice a topic that is deleted and created again: the consumer goes on at its
offset in the new topic, and the producer writes there. So what was copied counts only once a later
look has found the same ids. A topic of which something was copied is looked at every second until
then, and all topics every few seconds: that tells who leads their partitions, and notices what was
replaced while nothing is copied. The looks have a thread of their own, because a cluster may take
long to answer.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from threading import Condition, Event, Thread
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.positions.measure import ComparedIds, compare_ids, missing_topics
from replication.topics.topic_plan import TopicPlan

# Which topics are looked at next, and which ones looks have found to be the same.

SECOND_LOOK: Final = 2
"""Which look after a record was copied counts: a broker may learn of a new topic a moment late."""


class IdLooks:
    """The looks at the topics of running queries, by their numbers.

    A look is at all topics, or at those of which something was copied that no look has checked.

    Attributes:
        begun: How many have begun.
        replaced: Topics that are other ones now, or gone, by upstream names; with what became of
            them.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.replaced: Mapping[str, str] = {}
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
        """Begins the next look, and returns at which of *topics*; no look begins if at none."""
        names = frozenset(topics if is_whole else self._wanted.keys() & topics)
        self.begun += bool(names)
        return names

    def take(self, names: frozenset[str], found: ComparedIds) -> None:
        """Takes what the last look, which was at *names*, has *found*."""
        same = names - found.changed - found.unknown
        self._same.update(dict.fromkeys(same, self.begun))
        news = found.others | (found.missing & self._missing)
        if news:  # readers have no lock
            reasons = {topic: found.reasons.get(topic, "") for topic in news}
            self.replaced = {**self.replaced, **reasons}
        self._missing = (self._missing - names) | found.missing
        self._wanted = {
            topic: look for topic, look in self._wanted.items() if not self.is_same(topic, look)
        }


LOOK_SECONDS: Final = 1.0
LARGEST_SHARE: Final = 0.1
"""Of the time that looks may take: thousands of topics are looked at less often."""

REST_SECONDS: Final = 2.5
"""Between two looks at all topics, while each is what it was and has its leaders: a topic that
somebody deletes is shown as that within five seconds. A broker that falls silent must have been
described a moment before, and the others after that: shorter than it takes to say that one is
silent. See `replication.flows.outages`."""

PARTITIONS_PER_SECOND: Final = 500
"""Where that is longer: a look costs as much as there are partitions, however far a cluster is."""

RECENT_LOOKS: Final = 10

LAST_LOOK_SECONDS: Final = 5.0
"""How long the end of a generation waits for its last look."""


class Rhythm:
    """How often to look: looks take a share of the time by what they cost, not by what they wait.

    A cluster that is silent, or whose client asks a silent broker first, makes a look late. That
    costs nothing, and must not make the next ones rare just then. So the quickest of the last
    looks that were answered counts.
    """

    def __init__(self) -> None:
        self._took = deque[float](maxlen=RECENT_LOOKS)

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return max(LOOK_SECONDS, min(self._took, default=0.0) / LARGEST_SHARE)

    def took(self, seconds: float) -> None:
        """Notes how long a look took that was answered."""
        self._took.append(seconds)


class TopicIdWatch:
    """The looks at the topics of one flow's running queries; `close` ends them.

    Attributes:
        lost_aside: Topics that were set aside and are gone, until somebody takes them.
    """

    def __init__(self, context: FlowContext, plan: TopicPlan) -> None:
        self.plan = plan
        self._flow = context.config.flow
        self.log = context.log
        self._outages = context.outages
        self._compare: Callable[[TopicPlan, frozenset[str]], ComparedIds] = partial(
            compare_ids, context.source, context.target
        )
        self._metrics, self._source = context.metrics, context.source
        self.lost_aside = frozenset[str]()
        self._missed_aside: dict[str, int] = {}  # by how many looks in a row
        self._looks = IdLooks()
        self._ended = 0
        self._is_wanted = Event()  # at what was copied, or at once
        self._is_waited_for = Event()
        self._is_closed = False
        self._news = Condition()
        Thread(target=self._look_on, name=f"{self._flow} topic ids", daemon=True).start()

    @property
    def replaced(self) -> Mapping[str, str]:
        """What became of the topics that are not those of the plan any more, by upstream names."""
        return self._looks.replaced

    def want(self, topics: Iterable[str]) -> int:
        """Lets *topics* be looked at; returns which look, by number, checks what they are now."""
        with self._news:
            number = self._looks.want(topics)
            self._is_wanted.set()
            return number

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""
        return self._looks.is_same(topic, look)

    def look_again(self) -> int:
        """Waits for one more look at all topics, not for long; returns its number."""
        with self._news:
            number = self._looks.begun + 1
            self._hurry()
            if not self._is_closed:  # and no earlier look was late
                self._is_closed = not self._news.wait_for(
                    lambda: self._ended >= number, LAST_LOOK_SECONDS
                )
        return number

    def take_lost_aside(self) -> frozenset[str]:
        """Returns `lost_aside`, and empties it."""
        with self._news:
            lost, self.lost_aside = self.lost_aside, frozenset()
        return lost

    def close(self) -> None:
        """Ends the looks. One that waits for a cluster ends with its request."""
        self._is_closed = True
        self._hurry()

    def _hurry(self) -> None:
        self._is_waited_for.set()
        self._is_wanted.set()

    def _look_on(self) -> None:
        at_all, at_some, due = Rhythm(), Rhythm(), 0.0
        while True:
            self._is_wanted.wait(max(0.0, due - at_some.pause - time.monotonic()))
            is_waited_for = self._is_waited_for.wait(at_some.pause)
            if self._is_closed:
                return
            self._is_waited_for.clear()
            began = time.monotonic()
            is_whole = is_waited_for or began >= due
            with self._news:
                plan = self.plan
                names = self._looks.begin(plan.topics, is_whole=is_whole)
                if not names:
                    self._is_wanted.clear()
            if not names:
                continue
            found, ended = self._look(plan, names, is_whole=is_whole), time.monotonic()
            if found.described:
                (at_all if is_whole else at_some).took(ended - began)
            if is_whole:
                is_calm = _is_calm(found) and 1 not in self._missed_aside.values()
                rest = rest_seconds(len(plan.partitions)) if is_calm else 0.0
                due = ended + max(rest, at_all.pause)

    def _look_aside(self) -> None:
        """Looks whether topics that are set aside are gone: nobody tries them for up to an hour."""
        aside = [part for part in self._metrics.look().aside if isinstance(part, str)]
        missing = missing_topics(self._source, aside) if aside else ()
        self._missed_aside = {name: self._missed_aside.get(name, 0) + 1 for name in missing}
        lost = {name for name, looks in self._missed_aside.items() if looks == SECOND_LOOK}
        with self._news:
            self.lost_aside |= lost

    def _look(self, plan: TopicPlan, names: frozenset[str], *, is_whole: bool) -> ComparedIds:
        found = ComparedIds(unknown=names)
        try:
            found = self._compare(plan, names)
            if is_whole:
                self._look_aside()
        except ClusterError as error:  # whoever copies meets the same, decides, and says it
            self.log.debug("topic_ids_unknown", text=error)
        except Exception:  # the thread must outlive what nobody has foreseen
            self.log.exception("topic_ids_unknown", text="please report this")
        if len(names) == len(plan.topics):  # what is left out would count as not known
            self._outages.follow(found.described)
        with self._news:
            self._looks.take(names, found)
            self._ended = self._looks.begun
            self._news.notify_all()
        return found


def rest_seconds(partitions: int) -> float:
    """Returns how long all topics of so many *partitions* are not looked at, if all is well."""
    return max(REST_SECONDS, partitions / PARTITIONS_PER_SECOND)


def _is_calm(found: ComparedIds) -> bool:
    """Returns whether each topic is what it was, and has its leaders."""
    described = (topic for topics in found.described for topic in topics.values())
    return not (found.changed or found.unknown or any(topic.leaderless for topic in described))
