"""Feeds a generation's pending runs with what the executors report of each acknowledged record."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from replication.flows.context import FlowContext
from replication.offsets.pending import Copied, LeftOut, Overdue, PendingRuns, RecordRejection
from replication.offsets.runs import OffsetRun
from replication.spark.acknowledged import (
    Acknowledged,
    await_silence,
    generation_tag,
    is_reported,
)
from replication.spark.progress import QueryProgress
from replication.topics.topic_plan import TopicPlan

if TYPE_CHECKING:
    from replication.model import TopicPartition

UNREPORTED_BATCH_SECONDS = 60
"""The longest Real-Time batch where executors do not report."""

CONFIRM_SECONDS = 5
"""How long the reports of a finished batch's records may take; executors report twice a second."""


class Reports:
    """The reports of one generation; nothing in a session without the plugin. `close` them.

    Args:
        context: Of the flow.
        plan: The topics of the generation.
        number: Of the generation.

    Attributes:
        number: Of the generation.
        rejected: A record that the target rejected, by upstream partition.
    """

    def __init__(self, context: FlowContext, plan: TopicPlan, number: int) -> None:
        self._context = context
        self.number = number
        self._flow = context.config.flow
        self._upstream = {plan.copy_of(tp): tp for tp in plan.partitions}
        is_counted = is_reported(context.spark)
        self._acknowledged = Acknowledged(context.spark, self._flow, number) if is_counted else None
        self._overdue = Overdue(CONFIRM_SECONDS)
        self.rejected: dict[TopicPartition, RecordRejection] = {}

    @property
    def spacing(self) -> int | None:
        """Records between two borders in sparse ranges; None where executors do not report."""
        return self._context.config.offset_syncs.lag_max if self._acknowledged else None

    @property
    def batch_seconds(self) -> int:
        """How long a Real-Time batch lasts: without reports its end is what updates the map."""
        configured = self._context.config.realtime_batch_seconds
        return configured if self._acknowledged else min(configured, UNREPORTED_BATCH_SECONDS)

    def tagged(
        self, spark: SparkSession, limits: Mapping[str, int], schemas: str
    ) -> AbstractContextManager[None]:
        """Tags the query that is started in the block, as `generation_tag` does."""
        spacing = self.spacing or 0
        return generation_tag(
            spark, self._flow, self.number, spacing=spacing, limits=limits, schemas=schemas
        )

    def is_quiet(self, progress: QueryProgress) -> bool:
        """Returns whether a running query has no news; false if executors do not report."""
        reports = self._acknowledged
        return reports is not None and reports.is_quiet(progress.query, progress.newest)

    def add_to(self, pending: PendingRuns) -> None:
        """Adds what was reported since the last call.

        Raises:
            ProgressGapError: The reports contradict the batches.
        """
        if self._acknowledged is not None:
            copied: list[tuple[TopicPartition, Copied]] = []
            try:
                for remote, report in self._acknowledged.take():
                    tp = self._upstream[remote]
                    if isinstance(report, RecordRejection):
                        self.rejected[tp] = report
                    elif isinstance(report, Copied):
                        copied.append((tp, report))
                    elif isinstance(report, LeftOut):
                        pending.leave_out(tp, report)
                    else:
                        pending.add_acknowledged(tp, report)
            finally:
                self._context.board.add_copied(copied)

    def count(self, runs: Mapping["TopicPartition", Sequence[OffsetRun]]) -> None:
        """Puts new *runs* on the board, whether executors or batches have told of them."""
        self._context.board.add(runs)

    def accept_unconfirmed(self, pending: PendingRuns) -> None:
        """Takes a finished batch's own counts where its reports are overdue, and records that."""
        partitions = self._overdue.look(pending.unconfirmed(), time.monotonic())
        if partitions:
            pending.accept_batches(partitions)
            names = ", ".join(map(str, partitions))
            self._context.tables.record_event(
                self._flow,
                "unconfirmed",
                f"executors did not report all records of a finished batch on {names} within "
                f"{CONFIRM_SECONDS} s; the batch's own counts are used",
                reaction="batch",
            )

    def finish(self) -> None:
        """Waits a moment for what a stopped query has in flight, so that it is also reported."""
        if self._acknowledged is not None:
            await_silence(self._context.spark, self._flow, CONFIRM_SECONDS)

    def close(self) -> None:
        """Drops all further reports."""
        if self._acknowledged is not None:
            with suppress(Py4JError):  # the JVM may be gone, and the reports with it
                self._acknowledged.close()
