"""How many task slots a start of flows needs on one machine, and whether it can have them."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from replication.config.home import OUR_JAR
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.machine import open_files_limit
from replication.errors import SetupError
from replication.kafka.diagnosis import CallError
from replication.model import Flow, Mode
from replication.spark.mode import (
    INTERFACE,
    SHARED,
    choose_source,
    few_files,
    local_slots,
    most_continuous,
    most_tasks,
    obstacle_to_sharing,
    small_heap,
)

FLOWS_AT_ONCE: Final = 8
"""A cluster that is silent delays no other flow's answer."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a start needs.

    Attributes:
        slots: Task slots, each of one task.
        partitions: Source partitions of the flows, or the tasks that share them, by
            ``replication.mode``.
        unanswered: Flows whose cluster does not answer, and what follows: they do not keep the
            others from starting. Only flows with Spark's source are asked about.
        small_heap: What the driver's heap is too small for; empty if it suffices.
    """

    slots: int
    partitions: Mapping[Mode, int]
    unanswered: Mapping[Flow, str]
    small_heap: str

    def warnings(self) -> tuple[str, ...]:
        """Returns what an operator should know before the start."""
        return (*self.unanswered.values(), *filter(None, [self.small_heap]))


def shared_tasks(flow: FlowConfig, settings: Iterable[str] = ()) -> int | None:
    """Returns how many tasks share the partitions of *flow* on this machine, at most.

    None with Spark's source, which has a task for each partition. *settings* are names of Spark's.
    """
    classes = {INTERFACE, *([SHARED] if OUR_JAR.exists() else [])}
    obstacle = obstacle_to_sharing(classes.__contains__, settings)
    if choose_source(flow.record_source, obstacle).source == "spark":
        return None
    return most_tasks(os.cpu_count() or 1, flow.tasks_max)


def size_start(
    config: MirrorConfig,
    flows: Sequence[FlowConfig],
    heap_mb: int,
    mode: Mode | None = None,
    *,
    settings: Collection[str] = (),
) -> Sizing:
    """Returns what a start of *flows* needs.

    Args:
        config: The file.
        flows: Those that start.
        heap_mb: The driver's heap: Real-Time Mode needs some for each partition.
        mode: Of all flows, in the place of their own.
        settings: The names of Spark's settings.

    Raises:
        GuardError: Source and target of a flow are one cluster.
        ClusterError: A cluster rejects a request.
        SetupError: The process may not open as many files, or a flow cannot have its source.
    """
    partitions, unanswered = Counter[Mode](), dict[Flow, str]()
    with ThreadPoolExecutor(FLOWS_AT_ONCE) as pool:
        found = pool.map(partial(_count, config, settings), flows)
        for flow, (count, silence) in zip(flows, found, strict=True):
            partitions[mode or flow.mode] += count
            if silence:
                unanswered[flow.flow] = silence
    files = open_files_limit()
    if problem := few_files(partitions, len(flows), files):
        raise SetupError(problem)
    slots = local_slots(partitions, most_continuous(heap_mb, len(flows), files))
    heap = small_heap(partitions, heap_mb)
    return Sizing(slots, partitions, unanswered, heap)


def _count(config: MirrorConfig, settings: Collection[str], flow: FlowConfig) -> tuple[int, str]:
    """Returns the tasks that share the partitions of *flow*, or how many partitions it has.

    Only for the partitions are the clusters asked. The text is empty where they answer; else it
    says what counts in their place.
    """
    tasks = shared_tasks(flow, settings)
    if tasks is not None:
        return tasks, ""
    # Imported here because each start waits for it, and only Spark's source asks a cluster.
    from replication.control.partitions import (  # noqa: PLC0415
        partitions_now,
        partitions_then,
    )

    try:
        return partitions_now(flow), ""
    except CallError as error:
        if not error.is_temporary:
            raise
        reason = f"slots of {flow.flow} as in its last generation: {error}"
        return partitions_then(config, flow), reason
