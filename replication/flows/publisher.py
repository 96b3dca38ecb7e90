"""Writes what is known of the flows of this process to their status topics.

It has a thread for each target, and clients of its own, so that a cluster that does not answer
holds up neither records nor the status of other flows. Whatever fails costs the view only, and is
logged once.
"""

import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, Protocol

from replication.config.tree import FlowConfig
from replication.errors import ReplicationError
from replication.figures.lag import Skew, worst
from replication.figures.observation import ENDED, FlowState, Observation, Owner
from replication.figures.status_store import Holder, TopicStatuses, part_statuses, topic_key
from replication.flows.context import FlowContext
from replication.flows.flow_metrics import Activity
from replication.kafka.status_topic import StatusClients, StatusTopic
from replication.log import Log
from replication.model import Flow, Job, Part, runs

log = Log(__name__)

# Which topics' figures are written next: those that changed, the longest unsent first.
#
# A flow may have thousands of topics, so what is written for them is bounded, and each has its
# turn. The few that do not keep up come before the others, and have up to half of the bytes.

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


class TopicRotation:
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
        """Returns what is written now, by topic; None for one that is not replicated any more."""
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


WRITE_SECONDS: Final = 3.0
"""How long a record is waited for."""

LAST_SECONDS: Final = 5.0
"""How long the end of a flow waits for its last record."""


class Holders(Protocol):
    """By what this process speaks for the parts of a flow; nothing for a standby."""

    def __call__(self, *, at_end: bool) -> Mapping[Part, Holder]:
        """Returns it as of now or, *at_end*, as it was until the flow gave its leases back."""


class FlowPublisher:
    """The status records of one flow; for one thread at a time."""

    def __init__(self, config: FlowConfig, clients: StatusClients | None = None) -> None:
        self._config = config
        self.log = log.bind(config.flow)
        self._topic = StatusTopic(config, clients)
        self._topics = TopicStatuses()
        self._turns = TopicRotation(time.monotonic())
        self._failure = ""
        self._is_over = False
        self._lock = threading.Lock()

    def publish(self, observed: Observation, holders: Mapping[Part, Holder]) -> None:
        """Writes the records of *observed* for the parts of *holders*; logs why it cannot, once.

        Behind the record of the flow's end nothing is written: another thread may be late with a
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
                self._turns.forget()
                if error.cause != self._failure:
                    self._failure = error.cause
                    self.log.warning("status_not_published", text=error)
            else:
                if self._failure:
                    self._failure = ""
                    self.log.info("status_published_again")

    @property
    def skew(self) -> Skew | None:
        """How far the target's clock is ahead, by the records that it has stamped."""
        return self._topic.skew

    def close(self) -> None:
        """Closes the clients."""
        with self._lock:
            self._topic.__exit__()

    def _write(self, observed: Observation, holders: Mapping[Part, Holder]) -> None:
        interval = self._config.status.interval_seconds
        values = part_statuses(observed, holders, interval)
        if (holder := holders.get("records")) is not None:
            topics, now = self._topics.take(observed, holder), time.monotonic()
            turn = self._turns.take(topics, now, urgent_topics(observed))
            values |= {topic_key(topic): value for topic, value in turn.items()}
        records = [(key.encode(), value) for key, value in values.items()]
        if self._topic.write(records, WRITE_SECONDS):
            self._turns.forget()


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

        It waits for the last record of a flow that has ended, but not for long.
        """
        if observed.flow not in self._by_flow or observed.flow in self._has_ended:
            return
        if observed.state in ENDED:
            self._has_ended.add(observed.flow)
            self._newest.pop(observed.flow, None)
            holders = self._holders[observed.flow](at_end=True)
            thread = threading.Thread(
                target=self._publish, args=(observed, holders), name="last status", daemon=True
            )
            thread.start()
            thread.join(LAST_SECONDS)
        else:
            self._newest[observed.flow] = observed
            self._news[observed.flow.target].set()

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


# What the board of a flow shows of it, until an observer has measured more.

STATES: Final[Mapping[Activity, FlowState]] = {
    "starting": "starting",
    "replicating": "running",
    "waiting": "waiting",
    "paused": "paused",
    "ended": "stopping",
}


LEASED: Final[Mapping[str, Part]] = {
    "": "records",
    "checkpoints": "checkpoints",
    "metadata": "metadata",
}
"""The parts that have a lease, by the lease's name of them."""


def look_at(context: FlowContext, job: Job) -> Observation:
    """Returns what is known of the flow now without asking anybody."""
    shown = context.metrics.look()
    state = STATES[shown.state.activity]
    if not runs(job, "records"):
        state = "running"
    elif state == "running" and context.config.mode == "drain":
        state = "draining"
    if context.outages.is_standby:
        state = "standby"
    copying = shown.copying
    records = float(sum(copying.records.values()))
    lease = context.held.get("")
    return Observation(
        context.config.flow,
        time.time(),
        state,
        shown.state.since,
        reason=shown.state.reason,
        owner=_owner(context, job),
        epoch=None if lease is None else lease.epoch,
        mode=copying.mode,
        runs=job,
        generation=max(copying.generations, default=None),
        figures={"records_total": records} if runs(job, "records") else {},
    )


def _owner(context: FlowContext, job: Job) -> Owner | None:
    own = ("",) if runs(job, "records") else ("checkpoints", "metadata")
    for name in own:
        if (lease := context.held.get(name)) is not None:
            claim = lease.claim
            return Owner(claim.host, os.getpid(), claim.since.timestamp(), LEASED[name])
    if runs(job, "heartbeats") and not runs(job, "records"):
        since = context.metrics.look().state.since
        return Owner(os.uname().nodename, os.getpid(), since, "heartbeats")
    return None


def last_look(
    observed: Observation, error: BaseException | None, exit_code: int, *, is_drained: bool
) -> Observation:
    """Returns the last observation of a flow that has ended: how, and why if it has failed.

    Args:
        observed: What was known of it.
        error: What ended it; None for a clean end.
        exit_code: That of a process that ends with *error*.
        is_drained: Whether a drain has copied everything.
    """
    now = time.time()
    ended: FlowState = "drained" if is_drained else "stopped"
    return replace(
        observed,
        as_of=now,
        since=now,
        state="failed" if error is not None else ended,
        reason="",
        ended_at=now,
        exit_code=exit_code,
        text="" if error is None else str(error),
    )


def holders_of(context: FlowContext, job: Job, *, at_end: bool) -> dict[Part, Holder]:
    """Returns for which parts of a flow this process may speak now.

    Args:
        context: The flow.
        job: What the process runs.
        at_end: Whether the flow has ended, so that its leases have been given back.
    """
    found: dict[Part, Holder] = {}
    for name, part in LEASED.items():
        if part == "metadata" and runs(job, "records"):  # that of the records tells of it
            continue
        lease = context.held.get(name)
        if name in context.spoke_as and (at_end or (lease is not None and lease.is_held)):
            found[part] = context.spoke_as[name]
    if runs(job, "heartbeats") and ("records" in found or not runs(job, "records")):
        found["heartbeats"] = found.get("records", _without_lease(context))
    return found


def _without_lease(context: FlowContext) -> Holder:
    return Holder(0, "", f"{os.uname().nodename}/{context.config.flow}/{os.getpid()}")
