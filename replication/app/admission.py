"""Admission: which plans may run in this process next to each other, and in which mode."""

import threading
from collections.abc import Callable, Mapping

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.log import Log
from replication.model import Flow, Mode
from replication.spark.mode import Choice, choose_mode
from replication.topics.conflicts import find_conflicts
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


class Admission:
    """Checks that no topic has two writers and picks a mode that fits the task slots.

    Args:
        spark: Spark's version.
        slots: Returns the task slots of now: executors come and go.
    """

    def __init__(self, spark: str, slots: Callable[[], int]) -> None:
        self._spark, self._slots = spark, slots
        self._cluster_ids: dict[str, str] = {}
        self._plans: dict[Flow, TopicPlan] = {}
        self._lock = threading.Lock()

    def admit(self, config: FlowConfig, plan: TopicPlan, cluster_ids: Mapping[str, str]) -> Mode:
        """Admits the flow's *plan* in place of its last one, and returns the mode to run it in.

        Args:
            config: The flow.
            plan: What it replicates next.
            cluster_ids: The own ids of its two clusters, by alias. Those of the other flows are
                not needed before these flows have plans, so a cluster may be down meanwhile.

        Raises:
            GuardError: The plan conflicts with those of the other flows; it is not admitted.
            FlowError: The configured mode does not fit the task slots.
        """
        with self._lock:
            plans = {**self._plans, config.flow: plan}
            self._cluster_ids.update(cluster_ids)
            conflicts = find_conflicts(plans, self._cluster_ids)
            if conflicts:
                raise GuardError("\n".join(conflicts))
            self._plans = plans
        choice = self._choose(config)
        log.info("mode_chosen", flow=config.flow, mode=choice.mode, text=choice.reason)
        return choice.mode

    def mode(self, config: FlowConfig) -> Mode:
        """The mode that `admit` would return now for the flow's admitted plan.

        Raises:
            FlowError: The configured mode does not fit the task slots.
        """
        return self._choose(config).mode

    def _choose(self, config: FlowConfig) -> Choice:
        with self._lock:
            partitions = sum(len(plan.partitions) for plan in self._plans.values())
        return choose_mode(
            config.mode, spark=self._spark, slots=self._slots(), partitions=partitions
        )
