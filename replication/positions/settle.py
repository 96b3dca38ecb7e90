"""Waits until a stopped query's producers have nothing left in flight.

After a query is stopped, Spark's pooled producer continues to send the records of the cancelled
tasks (10 000 records within 250 ms were seen). Positions read before that would repeat records.
"""

import time
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from pyspark.sql import SparkSession

from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.log import Log
from replication.model import Flow, TopicPartition
from replication.spark.acknowledged import (
    Flying,
    await_silence,
    await_silence_of,
    is_reported,
)
from replication.spark.interceptor import unacknowledged
from replication.spark.requirements import has_interceptor
from replication.spark.session import jvm_of, task_slots

log = Log(__name__)

STILL_SECONDS = 0.6
REPORTED_STILL_SECONDS = 0.2
"""Where executors have said that nothing is in flight, or none has ever sent anything, growth can
only be another producer's."""

UNREPORTED_STILL_SECONDS = 1.0
"""After a producer that reports to nobody was given up: a broker may still append what it has."""

POLL_SECONDS = 0.2
PATIENCE_SECONDS = 30
GIVE_UP_SECONDS = 30
"""For executors that were lost and may still live; those that are reached take a second."""


ABANDON_SECONDS = 2
"""In which executors that are reached have given up what they have in flight."""


InFlight = Literal["nothing", "reported", "unreported"]
"""What of a flow may still be on its way to the target: nothing, since no query has written since
somebody waited; what its executors report; or something that no executor knows of as well."""


class UnsettledError(ClusterError):
    """Records are still on their way. Waiting helps: the producers give none of them up."""


class Settled(NamedTuple):
    """Logs that stand still.

    Args:
        ends: Of the partitions that somebody asked for.
        held: Other remote partitions, to which records of the flow are on their way.
    """

    ends: Mapping[TopicPartition, int]
    held: frozenset[TopicPartition] = frozenset()


def settled_log_ends(
    target: Cluster,
    partitions: Collection[TopicPartition],
    spark: SparkSession | None,
    flow: Flow,
    patience_seconds: float = PATIENCE_SECONDS,
    shared: Collection[TopicPartition] = (),
    *,
    is_reported_only: bool = True,
) -> Settled:
    """Waits until nothing of *flow* is in flight to *partitions*; returns their log ends.

    Waits for executors that were lost and may still live, until they must have ended.

    Args:
        target: The target cluster.
        partitions: Remote partitions.
        spark: The session whose executors write; None if this process has started none.
        flow: Must not be running.
        patience_seconds: How long to wait.
        shared: Those of the remote partitions that others write as well: they may go on growing.
        is_reported_only: Whether executors know of all that may be in flight.

    Raises:
        UnsettledError: Executors may still write.
        ClusterError: The logs keep growing because another producer writes to them, or the target
            does not answer.
    """
    deadline = time.monotonic() + patience_seconds
    own: dict[TopicPartition, int] = {}
    since, flying = time.monotonic(), Flying()
    is_known = spark is None or is_reported(spark)
    still_seconds = REPORTED_STILL_SECONDS if is_known else STILL_SECONDS
    if not is_reported_only:
        still_seconds = UNREPORTED_STILL_SECONDS
    while time.monotonic() < deadline:
        # read before the log ends, which then include every record acknowledged by now
        flying = _in_flight(spark, flow, partitions, patience_seconds)
        ends = target.log_ends(partitions)
        now = {tp: end for tp, end in ends.items() if tp not in shared}
        if now != own:
            own, since = now, time.monotonic()
        elif not flying.writers and time.monotonic() - since >= still_seconds:
            return Settled(ends, flying.held)
        time.sleep(POLL_SECONDS)
    after = f"{patience_seconds:g} s after the flow stopped"
    if flying.writers:
        raise UnsettledError(
            f"executors may still write to cluster {target.alias} {after} ({flying.writers}): "
            "check that all its brokers answer and that lost executors have ended"
        )
    raise ClusterError(
        f"the topics on cluster {target.alias} still grow {after}, although no executor writes to "
        "them; find the other producer that writes to them, then start again"
    )


def give_up_in_flight(spark: SparkSession | None, flow: Flow) -> None:
    """Ends what *flow*, which does not run, has in flight, before topics are created for it.

    Records whose remote topic was deleted wait in the producers without an end. A new topic of that
    name would get them first, and its head would be missing.
    """
    writers = ""
    if spark is not None and is_reported(spark):
        writers = await_silence(spark, flow, GIVE_UP_SECONDS, gives_up=True)
    if writers:
        text = f"a remote topic is created although records for it may be in flight: {writers}"
        log.bind(flow).warning("records_in_flight", text=text)


def abandon_in_flight(spark: SparkSession | None, flow: Flow) -> None:
    """Lets executors give up what *flow*, which does not run, has in flight.

    Another process may own the flow by now, and a target that answers again would get these records
    behind that one's.
    """
    if spark is not None and is_reported(spark):
        await_silence(spark, flow, ABANDON_SECONDS, gives_up=True)


def _in_flight(
    spark: SparkSession | None,
    flow: Flow,
    partitions: Collection[TopicPartition],
    patience_seconds: float,
) -> Flying:
    """Returns what may still be written, by partition where executors report; or nobody counts."""
    if spark is None:
        return Flying()
    if is_reported(spark):
        return await_silence_of(spark, flow, partitions, patience_seconds)
    if not has_interceptor(jvm_of(spark)):
        return Flying()
    records = unacknowledged(spark, flow, task_slots(spark))
    return Flying(f"{records} records are in flight" if records else "")
