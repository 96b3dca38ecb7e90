"""A flow's finished runs on their way into the books: the offset map, and MM2's offset syncs.

The map in Delta is the truth and comes first; the syncs are for MirrorMaker 2's own tools. A sync
that cannot be written never holds up the records: it is tried again with the next ones.
"""

import logging
from collections.abc import Iterable, Mapping

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.kafka.internal_topic import InternalTopic
from replication.mm2.wire import OffsetSync
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun
from replication.offsets.syncs import offset_syncs
from replication.state.offset_table import OffsetTable

log = logging.getLogger(__name__)


class MapWriter:
    """The books of one flow. ``anchors`` is where each partition stands, kept by the flow's loop.

    Raises:
        StateError: The books cannot be read; `write` raises it too.
    """

    def __init__(self, context: FlowContext) -> None:
        config = context.config
        self._flow = config.flow
        self._table = OffsetTable(context.tables, config.flow)
        books = self._table.compacted_progress()
        self.last_generation, self.anchors = books.last_generation, books.anchors
        self._syncs = Syncs(context, books.replicated_until)

    def write(
        self,
        generation: int,
        runs: Mapping[TopicPartition, Iterable[OffsetRun]],
        topic_ids: Mapping[str, str],
        batches: tuple[int, int] = (-1, -1),
    ) -> None:
        """Writes finished *runs*, then the offset syncs they give.

        Args:
            generation: That wrote them.
            runs: By upstream partition, oldest first.
            topic_ids: Of the upstream topics.
            batches: The first and the last of Spark's batches they come from; -1 for none.
        """
        listed = {tp: list(its) for tp, its in runs.items()}
        self._table.append(generation, listed, topic_ids, batches)
        self._syncs.write(listed)


class Syncs:
    """Writes the offset syncs of a flow, if it is to have any."""

    def __init__(
        self, context: FlowContext, replicated_until: Mapping[TopicPartition, int]
    ) -> None:
        config = context.config
        self._config = config
        self._until = dict(replicated_until)
        self._unsent: dict[TopicPartition, list[OffsetSync]] = {}
        self._topic = offset_syncs_topic(context) if config.offset_syncs.enabled else None

    def write(self, runs: Mapping[TopicPartition, list[OffsetRun]]) -> None:
        """Writes the syncs of *runs*; warns where the cluster does not take them."""
        if self._topic is None:
            return
        for tp, its in runs.items():
            self._unsent[tp] = [*self._unsent.get(tp, ()), *self._syncs_of(tp, its)]
        pending = [it for syncs in self._unsent.values() for it in syncs]
        if not pending:
            return
        try:
            self._topic.create()
            self._topic.write((it.key(), it.value()) for it in pending)
        except ClusterError as error:
            log.warning("flow=%s offset syncs are late: %s", self._config.flow, error)
            # the newest of each partition says most; the others would only pile up
            self._unsent = {tp: syncs[-1:] for tp, syncs in self._unsent.items()}
        else:
            self._unsent = {}

    def _syncs_of(self, tp: TopicPartition, runs: list[OffsetRun]) -> list[OffsetSync]:
        until = self._until.get(tp, 0)
        self._until[tp] = max([until, *(run.src_until for run in runs)])
        lag_max = self._config.offset_syncs.lag_max
        return offset_syncs(tp, runs, lag_max=lag_max, replicated_until=until)


def offset_syncs_topic(context: FlowContext) -> InternalTopic:
    """Where the flow's offset syncs are, on the cluster that ``offset-syncs.topic.location`` names.

    The name carries the flow's other cluster (mm2.md, 2.5).
    """
    config = context.config
    on_source = config.offset_syncs.location == "source"
    return InternalTopic(
        context.source if on_source else context.target,
        config.policy.offset_syncs_topic(config.flow.target if on_source else config.flow.source),
        producer=config.source.producer if on_source else config.target.producer,
        consumer=config.source.consumer if on_source else config.target.consumer,
        replication_factor=config.offset_syncs.replication_factor,
    )
