"""Looks, every second, whether the topics of running queries are still those of their plan.

Kafka's clients do not notice a topic that is deleted and created again: the consumer goes on at its
offset in the new topic, and the producer writes there. So what was copied counts only once a later
look has found the same ids. The looks have a thread of their own, because a cluster may take long
to answer.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from threading import Condition, Event, Thread
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import Flow
from replication.positions.replaced import ComparedIds, compare_ids
from replication.topics.topic_plan import TopicPlan

LOOK_SECONDS: Final = 1.0
LARGEST_SHARE: Final = 0.1
"""Of the time that looks may take: thousands of topics are looked at less often."""

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
        plan: The topics.
        replaced: Upstream names of the topics that are not those of the plan any more.
        begun: How many looks have begun.
    """

    def __init__(self, context: FlowContext, plan: TopicPlan) -> None:
        self.plan = plan
        self.replaced = frozenset[str]()
        self.begun = 0
        self._flow = context.config.flow
        self.log = context.log
        self._outages = context.outages
        self._compare: Callable[[TopicPlan], ComparedIds] = partial(
            compare_ids, context.source, context.target
        )
        self._same: dict[str, int] = {}  # by topic: the last look that found the plan's ids
        self._missing = frozenset[str]()  # at the last look
        self._ended = 0
        self._is_waited_for = Event()
        self._is_closed = False
        self._news = Condition()
        Thread(target=self._look_on, name=f"{self._flow} topic ids", daemon=True).start()

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""
        return self._same.get(topic, 0) >= look

    def look_again(self) -> int:
        """Waits for one more look, not for long; returns its number."""
        with self._news:
            number = self.begun + 1
            self._is_waited_for.set()
            if not self._is_closed:  # and no earlier look was late
                self._is_closed = not self._news.wait_for(
                    lambda: self._ended >= number, LAST_LOOK_SECONDS
                )
        return number

    def close(self) -> None:
        """Ends the looks. One that waits for a cluster ends with its request."""
        self._is_closed = True
        self._is_waited_for.set()

    def _look_on(self) -> None:
        rhythm = Rhythm()
        while True:
            self._is_waited_for.wait(rhythm.pause)
            if self._is_closed:
                return
            self._is_waited_for.clear()
            began = time.monotonic()
            if self._look():
                rhythm.took(time.monotonic() - began)

    def _look(self) -> bool:
        """Looks once; returns whether both clusters have answered."""
        with self._news:
            self.begun += 1
            number, plan = self.begun, self.plan
        found = ComparedIds(unknown=frozenset(plan.topics))
        try:
            found = self._compare(plan)
        except ClusterError as error:  # whoever copies meets the same, decides, and says it
            self.log.debug("topic_ids_unknown", text=error)
        except Exception:  # the thread must outlive what nobody has foreseen
            self.log.exception("topic_ids_unknown", text="please report this")
        self._outages.follow(found.described)
        with self._news:
            same = plan.topics.keys() - found.changed - found.unknown
            self._same.update(dict.fromkeys(same, number))
            self.replaced |= found.others | (found.missing & self._missing)
            self._missing = found.missing
            self._ended = number
            self._news.notify_all()
        return bool(found.described)


def names_of(flow: Flow, topics: Iterable[str]) -> str:
    """Returns what an operator reads of *topics* that were replaced."""
    return (
        f"deleted on {flow.source} or {flow.target}, or created again: {', '.join(sorted(topics))}"
    )
