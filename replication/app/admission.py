"""Admission: which plans may run in this process next to each other, and in which mode."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from replication.config.tree import FlowConfig
from replication.flows.context import FlowContext
from replication.flows.replicate.generations import Admitted
from replication.kafka.cluster import distinct_ids
from replication.log import Log
from replication.model import Flow, Mode
from replication.spark.mode import (
    BATCH_MODES,
    Continuous,
    ModeChoice,
    SlotsError,
    SourceChoice,
    choose_mode,
    choose_source,
)
from replication.topics.topic_plan import TopicPlan, find_conflicts

log = Log(__name__)


EXECUTOR_SECONDS = 120.0
"""How long a Real-Time flow on a cluster waits for executors that start, or that replace others."""

SPARKS_OWN: Final = SourceChoice("spark", "by default")

POLL_SECONDS = 0.5


class Admission:
    """Checks that no topic has two writers and picks a mode that fits the task slots.

    Args:
        spark: Spark's version.
        slots: Returns the task slots of now: executors come and go.
        patience_seconds: How long a flow waits for the slots that its configured mode needs; with
            the shared source, the mode ``auto`` waits, too.
        has_realtime: The platform's own Spark has Real-Time Mode under a lower version number.
        flows: All flows of the process.
        obstacle: As in `choose_source`.

    Raises:
        SetupError: A flow cannot have the source that is configured.
    """

    def __init__(
        self,
        spark: str,
        slots: Callable[[], int],
        patience_seconds: float = 0.0,
        *,
        has_realtime: bool = False,
        flows: Sequence[FlowConfig] = (),
        obstacle: str = "",
    ) -> None:
        self._has_realtime = has_realtime
        self._spark = spark
        self._slots = slots
        self._patience_seconds = patience_seconds
        self._sources = {flow.flow: choose_source(flow.record_source, obstacle) for flow in flows}
        self._cluster_ids: dict[str, str] = {}
        self._plans: dict[Flow, TopicPlan] = {}
        self._batched = {flow.flow for flow in flows if flow.mode in BATCH_MODES}
        self._lock = threading.Lock()

    def of(self, context: FlowContext, stop: threading.Event | None = None) -> Admitted:
        """Returns what the flow of *context* may do next to the others; *stop* ends its waits."""
        config = context.config

        def reserve(plan: TopicPlan) -> Mapping[str, str]:
            ids = distinct_ids((context.source, context.target))
            return self.reserve(config, plan, ids)

        return Admitted(
            reserve,
            partial(self.admit, config, stop),
            partial(self.mode, config),
            lambda: self._needs().share(self._slots()),
            lambda: self._needs().sharing,
        )

    def reserve(
        self, config: FlowConfig, plan: TopicPlan, cluster_ids: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Admits the topics of *plan* that no other flow keeps from it, in place of its last plan.

        Returns why topics are not admitted, by their upstream names. *cluster_ids* are those of its
        own clusters: those of the other flows are not needed before these flows have plans, so a
        cluster may be down meanwhile.
        """
        flow = config.flow
        with self._lock:
            if config.mode in BATCH_MODES:
                self._batched.add(flow)
            self._cluster_ids.update(cluster_ids)
            conflicts = find_conflicts(flow, {**self._plans, flow: plan}, self._cluster_ids)
            self._plans[flow] = plan.without(conflicts)
        return conflicts

    def admit(self, config: FlowConfig, stop: threading.Event | None = None) -> Mode:
        """Admits the flow; returns the mode to run its reserved topics in.

        *stop* ends the wait for task slots; what is returned then is of no use.
        """
        choice = self._await_choice(config, stop or threading.Event())
        source = self._source_of(config.flow)
        log.bind(config.flow).info(
            "mode_chosen", mode=choice.mode, text=choice.reason,
            source=source.source, why=source.reason,
        )  # fmt: skip
        return choice.mode

    def mode(self, config: FlowConfig) -> Mode:
        """Returns the mode that `admit` would return now for the flow's admitted plan."""
        return self._choose(config).mode

    def _await_choice(self, config: FlowConfig, stop: threading.Event) -> ModeChoice:
        """Waits while a lost executor's slots are missing, until the cluster has replaced it."""
        deadline, is_waiting = time.monotonic() + self._patience_seconds, False
        may_wait = self._source_of(config.flow).source == "shared"
        while True:
            try:
                choice = self._choose(config)
            except SlotsError as error:
                if time.monotonic() >= deadline:
                    raise
                text = str(error)
            else:
                if not (may_wait and choice.lacks_slots) or time.monotonic() >= deadline:
                    return choice
                text = choice.reason
            if not is_waiting:
                log.bind(config.flow).warning("slots_awaited", text=text)
                is_waiting = True
            if stop.wait(POLL_SECONDS):
                return ModeChoice(config.mode, "a stop was requested")

    def _choose(self, config: FlowConfig) -> ModeChoice:
        return choose_mode(
            config.mode,
            self._needs(),
            spark=self._spark,
            slots=0 if config.mode in BATCH_MODES else self._slots(),  # which would start Spark
            has_realtime=self._has_realtime,
        )

    def _needs(self) -> Continuous:
        """Counts all flows with the shared source from the start, so that no share shrinks."""
        with self._lock:
            sharing = {flow for flow in self._sources if self._source_of(flow).source == "shared"}
            own = self._plans.keys() - self._batched - sharing
            partitions = sum(len(self._plans[flow].partitions) for flow in own)
            return Continuous(partitions, len(sharing - self._batched))

    def _source_of(self, flow: Flow) -> SourceChoice:
        return self._sources.get(flow, SPARKS_OWN)
