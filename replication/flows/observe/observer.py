"""The thread that measures the figures of all flows of a process, every few seconds.

It has clients of its own and holds nothing up: replication goes on without it, and what it cannot
measure is absent. Each look makes one immutable observation of each flow, which readers take
without a lock.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from py4j.protocol import Py4JError

from replication.config.tree import ClusterConfig
from replication.errors import ClusterError, ReplicationError
from replication.figures.lag import jumped, steady
from replication.figures.observation import Observation
from replication.flows.observe.clocks import Clocks
from replication.flows.observe.flow_observer import FlowObserver
from replication.java import JVM_GONE
from replication.kafka.api import KafkaRecord, join_names
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.reader import Reader
from replication.kafka.watch import LogEnds
from replication.log import Log
from replication.model import Flow, Isolation, TopicPartition
from replication.spark.acknowledged import Reported, ReportedFigures
from replication.upkeep.prepare import topic_losses

log = Log(__name__)

# What is asked of a flow's source now and then: the age of a backlog, and what deletes it.

QUESTIONS_EACH_SECONDS: Final = 60.0
MOST_READ: Final = 20
"""Partitions from which a record is read each minute."""

SEARCHED_OFFSETS: Final = 1_000
"""How far a record is searched: the first offsets may hold none."""

PATIENCE_SECONDS: Final = 5.0
CLIENT: Final = "replication-observe"


class RareQuestions:
    """Asks about one flow, at most once a minute: what is set right is seen within that time."""

    def __init__(self) -> None:
        self._asked_at = -QUESTIONS_EACH_SECONDS

    def ask(self, observer: FlowObserver) -> None:
        """Asks what is due; the answers are for the next looks."""
        if time.monotonic() - self._asked_at < QUESTIONS_EACH_SECONDS:
            return
        behind = observer.topics.behind
        metrics = observer.context.metrics.look()
        backlog = list(islice(observer.partitions.of_unknown_age(metrics), MOST_READ))
        topics, losses = metrics.copying.topics, observer.context.metrics.losses
        less = {topic: topics[topic] for topic in losses if topic in topics}
        if not behind and not backlog and not less:
            observer.kept = frozenset()
            return
        self._asked_at = time.monotonic()
        observer.topics.headroom = _headroom(observer, behind) if behind else {}
        observer.kept = _kept(observer, less)
        if backlog:  # the last: what of it may not be read is an error behind the rest
            _read(observer, backlog)


def _read(observer: FlowObserver, backlog: list[tuple[TopicPartition, int, int]]) -> None:
    """Reads the first record of each partition of *backlog*: no look tells its age."""
    spans = {tp: (at, min(end, at + SEARCHED_OFFSETS)) for tp, at, end in backlog}

    def visit(tp: TopicPartition, record: KafkaRecord) -> bool:
        if record.timestamp_ms >= 0:
            observer.partitions.read(tp, spans[tp][0], record.timestamp_ms / 1000 - jumped())
        return True

    with Reader(observer.config.source.consumer, observer.config.isolation) as reader:
        reader.visit(spans, visit)


def _kept(observer: FlowObserver, topics: Mapping[str, str]) -> frozenset[str]:
    """Returns those of *topics*, with their remote names, that the target keeps all of by now."""
    if not topics:
        return frozenset()
    with _cluster(observer.config.source) as source, _cluster(observer.config.target) as target:
        return frozenset(topics.keys() - topic_losses(topics, source, target).keys())


def _cluster(config: ClusterConfig) -> Cluster:
    return Cluster(config.alias, config.admin, client_id=CLIENT, patience_s=PATIENCE_SECONDS)


def _headroom(observer: FlowObserver, behind: dict[str, float]) -> dict[str, float]:
    """Returns how long until the source deletes what of the topics *behind* is not copied."""
    with _cluster(observer.config.source) as cluster:
        settings = Rejections().call(cluster.topic_config, behind)
    found: dict[str, float] = {}
    for topic, own in settings.items():
        retention = int(own["retention.ms"].value or -1) if "retention.ms" in own else -1
        if retention >= 0 and "delete" in (own["cleanup.policy"].value or ""):
            found[topic] = max(0.0, retention / 1000 - behind[topic])
    return found


SUMMARY_EACH_SECONDS: Final = 60.0

FIGURES: Final = {
    "records": "records_total",
    "bytes": "bytes_total",
    "records_per_second": "records_per_second",
    "lag_records": "lag_records",
    "lag_seconds": "lag_seconds",
    "in_flight": "in_flight_records",
}


class Summary:
    """The lines of the flows of one process; a subscriber of their observations."""

    def __init__(self) -> None:
        self._said_at: dict[str, float] = {}

    def __call__(self, observed: Observation) -> None:
        """Logs *observed* if a minute has passed since the flow's last line, or its first look."""
        flow = str(observed.flow)
        said_at = self._said_at.setdefault(flow, observed.clock)
        if observed.ended_at is not None or observed.clock - said_at < SUMMARY_EACH_SECONDS:
            return
        self._said_at[flow] = observed.clock
        latency = observed.quantiles.get("latency_seconds", {})
        figures = {name: observed.figures.get(figure) for name, figure in FIGURES.items()}
        log.bind(flow).info(
            "flow_summary",
            state=observed.state,
            health=observed.health,
            **{name: _short(value) for name, value in figures.items()},
            latency_p50=_short(latency.get("p50")),
            latency_p99=_short(latency.get("p99")),
            generation=observed.generation,
            conditions=",".join(sorted({condition.code for condition in observed.conditions})),
        )


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, 3)


MANY_PARTITIONS: Final = 2500
"""Beyond that the interval is twice as long."""

REPORT_SECONDS: Final = 3.0
"""How long executors and loops have to tell what they know, after the ends are known."""

POLL_SECONDS: Final = 0.5
"""Between two looks whether they have: as often as executors report."""

END_SECONDS: Final = 1.0
"""How long the end of the process waits for a look that is under way."""

Subscriber = Callable[[Observation], None]
_Cluster = tuple[str, frozenset[tuple[str, str]]]


class Observer:
    """Looks at the flows of one process, from `begin` to `close`.

    Args:
        interval_seconds: From one look to the next; 0 for none.
        reported: What executors have reported.
        clocks: Asks for the time of clusters that answer; None for no such question.
    """

    def __init__(
        self, interval_seconds: float, reported: ReportedFigures, clocks: Clocks | None = None
    ) -> None:
        self._interval = interval_seconds
        self._reported = reported
        self._clocks = clocks
        self._observers: dict[Flow, FlowObserver] = {}
        self._questions: dict[Flow, RareQuestions] = defaultdict(RareQuestions)
        self._latest: dict[Flow, Observation] = {}
        self._subscribers: tuple[Subscriber, ...] = (Summary(),)
        self._said = set[object]()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._clients: dict[_Cluster, LogEnds] = {}
        self._resources = ExitStack()
        self._thread = threading.Thread(target=self._run, name="observe", daemon=True)

    def begin(self) -> None:
        """Begins to look."""
        if self._interval:
            self._thread.start()

    def close(self) -> None:
        """Ends the looks; the last observations stay."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def watch(self, observer: FlowObserver) -> None:
        """Looks at another flow from now on, until its `end`."""
        self._observers[observer.config.flow] = observer

    def subscribe(self, subscriber: Subscriber) -> None:
        """Gives each new observation to *subscriber*, in the thread that made it."""
        self._subscribers = (*self._subscribers, subscriber)

    def latest(self, flow: Flow) -> Observation | None:
        """Returns the newest observation of *flow*; None before the first. For any thread."""
        return self._latest.get(flow)

    def glance(self, flow: Flow) -> None:
        """Looks at *flow* at once, with what was asked and reported last."""
        with self._lock, self._logged(flow):
            observer = self._observers.get(flow)  # none any more behind its last look
            if observer is not None and flow in self._latest:
                self._latest[flow] = observer.look(steady(), self._report_of(flow))

    def end(self, flow: Flow) -> Observation | None:
        """Measures *flow* for the last time, without a question to anybody.

        Returns:
            What is known of it; None if it was never looked at.
        """
        observer, before = self._observers.pop(flow, None), self._latest.get(flow)
        if observer is None or before is None:
            return before
        with self._lock, self._logged(flow):
            last = observer.look(steady(), None)
            self._latest[flow] = replace(
                last, histograms=before.histograms, quantiles=before.quantiles, conditions=()
            )
        return self._latest[flow]

    def _run(self) -> None:
        with self._resources:
            if self._clocks is not None:
                self._resources.callback(self._clocks.close)
            due = time.monotonic()
            while not self._over.wait(max(0.0, due - time.monotonic())):
                partitions = sum(len(one.partitions.ends) for one in list(self._observers.values()))
                pause = self._interval * (2 if partitions > MANY_PARTITIONS else 1)
                due = time.monotonic() + pause
                try:
                    self.look()
                except Exception:  # the thread's edge: replication goes on
                    if not self._over.is_set():  # else the JVM may have gone
                        log.exception("status_not_published", text="please report this")

    def look(self) -> None:
        """Looks at all flows once."""
        observers = list(self._observers.values())
        self._ask_ends(observers)
        self._await_reports(observers)
        for observer in observers:
            flow = observer.config.flow
            with self._lock, self._logged(flow):
                if flow in self._observers:
                    observed = observer.look(steady(), self._report_of(flow))
                    self._latest[observed.flow] = observed
                    for subscriber in self._subscribers:
                        with self._logged(subscriber):
                            subscriber(observed)
            with self._logged((flow, "questions")):
                self._questions[flow].ask(observer)
            with self._logged((flow, "clocks")):
                self._ask_clocks(observer)

    def _ask_clocks(self, observer: FlowObserver) -> None:
        """Asks for the time of the clusters that answer; a drain is over before it matters."""
        if self._clocks is None or observer.config.mode == "drain":
            return
        silences = observer.context.outages.silences
        for cluster in (observer.config.source, observer.config.target):
            if silences.get(cluster.alias) is None:
                self._clocks.ask(cluster)
            else:
                self._clocks.forget(cluster.alias)

    def _ask_ends(self, observers: Sequence[FlowObserver]) -> None:
        """Asks each source once for each isolation, whatever flows read it."""
        wanted: dict[tuple[_Cluster, Isolation], list[FlowObserver]] = defaultdict(list)
        for observer in observers:
            source = observer.config.source
            cluster = source.alias, frozenset(source.admin.items())
            wanted[cluster, observer.config.isolation].append(observer)
        for (cluster, isolation), together in wanted.items():
            ends: Mapping[TopicPartition, int] = {}  # no answer is one that lacks all
            at = steady()
            with self._logged(cluster):
                with self._lock:
                    boards = [(one, one.context.metrics.look()) for one in together]
                    asked = {tp for one, board in boards for tp in one.partitions.known(board)}
                if cluster not in self._clients:
                    opened = LogEnds(cluster[0], dict(cluster[1]))
                    self._clients[cluster] = self._resources.enter_context(opened)
                at = steady()
                client = self._clients[cluster]
                ends = client.ask(asked, isolation)
                with self._logged((cluster, "topics")):
                    if denied := client.denied:
                        raise ClusterError(
                            f"the lag of {len(denied)} topics of {cluster[0]} is not known: "
                            f"{join_names(denied)}; the user needs DESCRIBE on them"
                        )
            for observer in together:
                with self._lock:
                    observer.partitions.saw(at, ends)
                if ends:
                    observer.context.metrics.saw_ends(ends)

    def _await_reports(self, observers: Sequence[FlowObserver]) -> None:
        """Waits until the positions are younger than the ends.

        The other way round a healthy flow would show the records of the last second as lag.
        """
        deadline = time.monotonic() + REPORT_SECONDS
        if self._reported.is_loaded:
            since = self._reported.now()
            while not self._reported.have_reported(since) and time.monotonic() < deadline:
                if self._over.wait(POLL_SECONDS):  # executors report on their own schedule
                    return
        known = time.monotonic()
        while time.monotonic() < deadline:
            is_known = all(_has_looked(observer, known) for observer in observers)
            if is_known or self._over.wait(POLL_SECONDS):  # so do loops look
                return

    def _report_of(self, flow: Flow) -> Reported | None:
        with suppress(*JVM_GONE):  # the JVM ends, and all flows with it
            return self._reported.of(flow)
        return None

    @contextmanager
    def _logged(self, what: object) -> Iterator[None]:
        """Says once that *what* fails in the block, until it succeeds: the rest goes on."""
        try:
            yield
        except (ReplicationError, Py4JError) as error:
            if what not in self._said and not self._over.is_set():
                self._said.add(what)
                log.warning("status_not_published", text=f"{error}\nReplication goes on")
        else:
            self._said.discard(what)


def _has_looked(observer: FlowObserver, since: float) -> bool:
    """Returns whether the loop has taken the reports after *since*; one that waits has none."""
    copying = observer.copying
    return not copying.generations or copying.looked_at > since
