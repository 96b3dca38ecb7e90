"""Writes what is known of the flows of this process to their status topics.

It has a thread for each target, and clients of its own, so that a cluster that does not answer
holds up neither records nor the words of other flows. Whatever fails costs the view only, and is
logged once.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from replication.config.tree import FlowConfig
from replication.errors import ReplicationError
from replication.figures.clocks import Skew, worst
from replication.figures.observation import ENDED, Observation
from replication.figures.words import Holder, TopicWords, part_words, topic_key
from replication.flows.publish.topic_turns import TopicTurns, urgent_topics
from replication.kafka.status_topic import StatusClients, StatusTopic
from replication.log import Log
from replication.model import Flow, Part

log = Log(__name__)

WRITE_SECONDS: Final = 3.0
"""How long a word is waited for."""

LAST_SECONDS: Final = 5.0
"""How long the end of a flow waits for its last word."""


class Holders(Protocol):
    """By what this process speaks for the parts of a flow; nothing for a standby."""

    def __call__(self, *, at_end: bool) -> Mapping[Part, Holder]:
        """Returns it as of now or, *at_end*, as it was until the flow gave its leases back."""


class FlowPublisher:
    """The words of one flow; for one thread at a time.

    Args:
        config: The flow.
        clients: Those of its target; its own by default.
    """

    def __init__(self, config: FlowConfig, clients: StatusClients | None = None) -> None:
        self._config = config
        self.log = log.bind(config.flow)
        self._topic = StatusTopic(config, clients)
        self._topics = TopicWords()
        self._turns = TopicTurns(time.monotonic())
        self._failure = ""
        self._is_over = False
        self._lock = threading.Lock()

    def publish(self, observed: Observation, holders: Mapping[Part, Holder]) -> None:
        """Writes the words of *observed* for the parts of *holders*; logs why it cannot, once.

        Behind the word of the flow's end nothing is written: another thread may be late with a
        look that was made before.
        """
        if not holders:
            return
        with self._lock:
            if self._is_over:
                return
            self._is_over = observed.state in ENDED
            try:
                self._write(observed, holders)
            except ReplicationError as error:
                self._report(error)
            else:
                self._note_written()

    @property
    def skew(self) -> Skew | None:
        """How far the target's clock is ahead, by the words that it has stamped."""
        return self._topic.skew

    def close(self) -> None:
        """Closes the clients."""
        with self._lock:
            self._topic.__exit__()

    def _write(self, observed: Observation, holders: Mapping[Part, Holder]) -> None:
        interval = self._config.status.interval_seconds
        words = part_words(observed, holders, interval)
        if (holder := holders.get("records")) is not None:
            topics, now = self._topics.take(observed, holder), time.monotonic()
            turn = self._turns.take(topics, now, urgent_topics(observed))
            words |= {topic_key(topic): value for topic, value in turn.items()}
        records = [(key.encode(), value) for key, value in words.items()]
        if self._topic.write(records, WRITE_SECONDS):
            self._turns.forget()

    def _report(self, error: ReplicationError) -> None:
        self._turns.forget()
        if error.cause != self._failure:
            self._failure = error.cause
            self.log.warning("status_not_published", text=error)

    def _note_written(self) -> None:
        if self._failure:
            self._failure = ""
            self.log.info("status_published_again")


class Publishers(AbstractContextManager["Publishers"]):
    """The publishers of a process. They run in the background for the block.

    Args:
        flows: By flow; those whose status topic is off are left out.
    """

    def __init__(self, flows: Sequence[tuple[FlowConfig, Holders]]) -> None:
        flows = [one for one in flows if one[0].status.storage_topic]
        key_of = StatusClients.key_of
        clients = {key_of(config.target): StatusClients(config.target) for config, _ in flows}
        self._by_flow = {
            config.flow: FlowPublisher(config, clients[key_of(config.target)])
            for config, _ in flows
        }
        self._holders = {config.flow: holders for config, holders in flows}
        self._newest: dict[Flow, Observation] = {}
        self._has_ended = set[Flow]()
        self._news = {flow.target: threading.Event() for flow in self._by_flow}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(target,), name=f"status on {target}", daemon=True
            )
            for target in self._news
        ]

    def __enter__(self) -> "Publishers":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to write."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the threads, which may be waiting for a cluster; they hold nobody up."""
        self._stop.set()
        for event in self._news.values():
            event.set()

    def skew(self, alias: str) -> Skew | None:
        """Returns how far the clock of a cluster is ahead; None if no flow writes to it."""
        written = [one for flow, one in self._by_flow.items() if flow.target == alias]
        return worst(skew for one in written if (skew := one.skew) is not None)

    def offer(self, observed: Observation) -> None:
        """Takes a new look at a flow, which is written in the background.

        It waits for the last word of a flow that has ended, but not for long.
        """
        if observed.flow not in self._by_flow or observed.flow in self._has_ended:
            return
        if observed.state in ENDED:
            self._has_ended.add(observed.flow)
            self._say_last(observed)
        else:
            self._newest[observed.flow] = observed
            self._news[observed.flow.target].set()

    def _say_last(self, observed: Observation) -> None:
        self._newest.pop(observed.flow, None)
        holders = self._holders[observed.flow](at_end=True)
        thread = threading.Thread(
            target=self._publish, args=(observed, holders), name="last word", daemon=True
        )
        thread.start()
        thread.join(LAST_SECONDS)

    def _run(self, target: str) -> None:
        news = self._news[target]
        while not self._stop.is_set():
            news.wait()
            news.clear()
            for flow, holders in self._holders.items():
                observed = self._newest.pop(flow, None) if flow.target == target else None
                if observed is not None:
                    self._publish(observed, holders(at_end=False))

    def _publish(self, observed: Observation, holders: Mapping[Part, Holder]) -> None:
        publisher = self._by_flow[observed.flow]
        try:
            publisher.publish(observed, holders)
        except Exception:  # the thread's edge: the next look is another attempt
            text = "internal error, please report it"
            publisher.log.exception("status_not_published", text=text)
