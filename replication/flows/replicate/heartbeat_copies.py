"""Copies the heartbeats of a drain by Kafka's clients alone, where nothing else is new.

Every drain finds the heartbeat that it has written itself. To start Spark for it would take most of
an idle drain's CPU seconds. Records do not pass through Python: `jvm/calls/HeartbeatCopy`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from py4j.protocol import Py4JError

from replication.flows.context import FlowContext
from replication.flows.replicate.generation import compressing
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.try_alone import record_copied
from replication.java import java_class, known_class, once
from replication.kafka.cluster import Rejections
from replication.kafka.jvm import java_map
from replication.model import Position, TopicPartition
from replication.offsets.pending import Copied
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.positions.measure import InFlight
from replication.spark.kafka_options import (
    OWNER_ONLY,
    client_properties,
    named,
    sink_options,
    source_options,
)
from replication.topics.topic_plan import TopicPlan

MOST_OFFSETS: Final = 1000
"""What was written while no drain ran may be more, and is worth Spark's start."""

COPY: Final = "replication.calls.HeartbeatCopy"
TIMEOUT_SECONDS: Final = 10.0
"""A stop and a lost lease wait for so long, where the target takes nothing."""

Window = tuple[TopicPartition, int, int]
"""An upstream partition, the first offset and the end."""


class HeartbeatCopies:
    """Copies the few heartbeats that a drain of the flow finds. A failure is Spark's to explain."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._has_failed = False

    @property
    def in_flight(self) -> InFlight:
        """What may be on its way: after a failure a broker may still append what it has."""
        return "unreported" if self._has_failed else "reported"

    def may_copy(self, plan: TopicPlan, positions: Mapping[TopicPartition, Position]) -> bool:
        """Returns whether all that is new in *plan* are some heartbeats, and Spark is not there.

        A header of provenance is added by Spark's query only.
        """
        context, config = self._context, self._context.config
        is_due = config.mode == "drain" and context.started_spark is None
        if self._has_failed or not is_due or config.has_provenance or plan.shared:
            return False
        if not all(map(config.policy.is_heartbeats_topic, plan.topics)):
            return False
        ends = context.source.log_ends(plan.partitions)
        if not ends.keys() >= set(plan.partitions):
            return False  # a topic has just been deleted, as Spark's query will say
        offsets = sum(max(0, ends[tp] - positions[tp].upstream) for tp in plan.partitions)
        return offsets <= MOST_OFFSETS and known_class(context.jvm, COPY) is not None

    def copy(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        map_writer: MapWriter,
        number: int,
    ) -> bool:
        """Copies what is new in *plan*, for which `may_copy` is true.

        Returns whether everything is copied. If not, *positions* have to be found again, and
        Spark's query copies it, or says why it cannot.
        """
        context, config = self._context, self._context.config
        ends = context.source.log_ends(plan.partitions, config.isolation)
        if not ends.keys() >= set(plan.partitions):
            self._has_failed = True
            return False
        windows = [(tp, positions[tp].upstream, ends[tp]) for tp in plan.partitions]
        context.metrics.begin(number, "drain", plan, positions)
        try:
            copied = _copied(context, plan, windows)
        except Py4JError as error:
            self._has_failed = True
            text = str(error).partition("\n")[0]
            context.log.info("heartbeats_left_to_spark", text=text)
            return False
        finally:
            context.metrics.end()
        keeps_time = config.record_timestamps == "preserve"
        reports = [
            (tp, Copied(size, newest if keeps_time else -1, newest))
            for (tp, _, _), (_, size, newest) in zip(windows, copied, strict=True)
        ]
        context.metrics.add_copied(reports)
        runs = {
            tp: [OffsetRun(start, end, positions[tp].downstream, records)]
            for (tp, start, end), (records, _, _) in zip(windows, copied, strict=True)
            if end > start
        }
        context.metrics.add(runs)
        record_copied(context, plan, map_writer, FinishedRuns(number, runs, plan.source_ids))
        return True


def _copied(context: FlowContext, plan: TopicPlan, windows: Sequence[Window]) -> list[list[int]]:
    """Copies *windows*; returns records, bytes and the newest timestamp of each.

    Raises:
        Py4JError: Not all of them could be copied; the producer has given up the others.
    """
    config, jvm = compressing(context.config, plan), context.jvm
    starts = {tp: start for tp, start, _ in windows}
    source = source_options(named(config.source.consumer, config.flow), starts)
    limits = Rejections().call(context.target.max_message_bytes, plan.topics.values())
    sink = sink_options(
        config.target.producer, config.flow, intercepted=False, limits=limits.values()
    )
    # nothing is sent once the lease is lost, nor long after it was checked
    own = {"interceptor.classes": OWNER_ONLY, "max.block.ms": "5000"}
    # what is gone fails the copy, so that the guard decides, as it does for Spark's query
    ungrouped = {"enable.auto.commit": "false", "auto.offset.reset": "none"}
    texts = [
        [tp.topic, tp.partition, start, end, plan.topics[tp.topic]] for tp, start, end in windows
    ]
    copied: list[list[int]] = json.loads(
        once(java_class(jvm, COPY).copy)(
            java_map(jvm, {**client_properties(source), **ungrouped}),
            java_map(jvm, {**client_properties(sink), **own}),
            json.dumps(texts),
            config.record_timestamps == "preserve",
            int(1000 * TIMEOUT_SECONDS),
        )
    )
    return copied
