"""Reads where the logs of both sides begin and end."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.java_admin import parted_at
from replication.log import Log
from replication.model import Flow, Topic, TopicPartition
from replication.offsets.runs import UNSTAMPED, Epochs, Stamp, cut_of, is_in_doubt
from replication.positions.flow_clients import FlowClients
from replication.positions.survey import LogSpans, Stored
from replication.spark.acknowledged import Flying, await_silence, await_silence_of, is_reported
from replication.spark.kafka_options import unacknowledged
from replication.spark.session import has_interceptor, jvm_of, task_slots
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)

# Compares the topics of a plan with those that the clusters have now, by their ids.


@dataclass(frozen=True, slots=True)
class ComparedIds:
    """How the topics of a plan differ from those of a moment, by upstream names.

    Args:
        others: Topics that are other ones now on one of the clusters.
        missing: Topics that one of the clusters does not have. A broker learns of a new topic a
            moment after the others, so one look does not prove it.
        unknown: Topics that a cluster does not tell about.
        described: The topics that are there now: the source's, the target's.
        reasons: What became of the others and the missing ones, in a sentence.
    """

    others: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    described: tuple[Mapping[str, Topic], ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> frozenset[str]:
        """Topics that are not those of the plan."""
        return self.others | self.missing


def compare_ids(
    source: Cluster, target: Cluster, plan: TopicPlan, names: Collection[str] | None = None
) -> ComparedIds:
    """Compares the ids of *plan* with those of today: one request to each cluster.

    Args:
        source: The cluster that is read.
        target: The other one.
        plan: The topics.
        names: Those of them to be compared, by upstream names; None for all.

    Raises:
        ClusterError: A cluster does not answer.
    """
    topics = plan.topics if names is None else {name: plan.topics[name] for name in names}
    originals = {name: plan.source_ids[name] for name in topics}
    copies = {name: plan.remote_ids[remote] for name, remote in topics.items()}
    ours = _compare(source, originals, {name: name for name in topics})
    theirs = _compare(target, copies, topics)
    return ComparedIds(
        ours.others | theirs.others,
        ours.missing | theirs.missing,
        ours.unknown | theirs.unknown,
        ours.described + theirs.described,
        {**theirs.reasons, **ours.reasons},
    )


def _compare(cluster: Cluster, ids: Mapping[str, str], names: Mapping[str, str]) -> ComparedIds:
    rejections = Rejections()
    found = rejections.call(partial(cluster.describe, listed=True), names.values())
    unknown = frozenset(topic for topic in ids if names[topic] in rejections.texts)
    shown = {topic: found.get(names[topic]) for topic in ids.keys() - unknown}
    others = {topic for topic, now in shown.items() if now and now.topic_id != ids[topic]}
    missing = {topic for topic, now in shown.items() if now is None}
    again = f"was deleted on {cluster.alias} and created again"
    reasons = {topic: f"{names[topic]} {again}" for topic in others}
    reasons |= {topic: gone_text(names[topic], cluster.alias) for topic in missing}
    return ComparedIds(
        frozenset(others),
        frozenset(missing),
        unknown,
        ({topic: now for topic, now in shown.items() if now},),
        reasons,
    )


def missing_topics(source: Cluster, names: Collection[str]) -> frozenset[str]:
    """Returns those of *names* that *source* says it does not have.

    Raises:
        ClusterError: The cluster does not answer.
    """
    rejections = Rejections()
    found = rejections.call(partial(source.describe, listed=True), names)
    return frozenset(names) - found.keys() - rejections.texts.keys()


def gone_text(topic: str, alias: str) -> str:
    """Returns what is said of a *topic* that a cluster had, and has no more."""
    return f"{topic} was deleted on {alias}"


# Waits until a stopped query's producers have nothing left in flight.
#
# After a query is stopped, Spark's pooled producer continues to send the records of the cancelled
# tasks (10 000 records within 250 ms were seen). Positions read before that would repeat records.

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


# Asks brokers whether logs were cut below what was copied, by the epochs of their leaders.
#
# The leaders of today are asked for first, which is cheap. Where one is another than the offset
# map has, the dear question follows: up to where is its log that of the earlier leader?


def with_cuts(
    config: FlowConfig,
    clusters: tuple[Cluster, Cluster],
    plan: TopicPlan,
    known: Stored,
    spans: LogSpans,
) -> LogSpans:
    """Adds to *spans* today's leaders' epochs, and what they say of cuts.

    A cluster that does not answer this leaves it unknown.
    """
    copies = {tp: copy for tp, copy in plan.copies.items() if spans.target_ends.get(tp)}
    copied = {tp: known.anchors[tp].position for tp in copies if tp in known.anchors}
    stamps = {tp: known.stamps.get(tp, UNSTAMPED) for tp in copied}
    source = _epochs(clusters[0], {tp: tp for tp in plan.partitions if spans.source_ends.get(tp)})
    target = _epochs(clusters[1], copies)
    ours = cuts_of(
        config.source.consumer,
        {tp: CopiedTo(tp, at.upstream, stamps[tp].source) for tp, at in copied.items()},
        source,
    )
    theirs = cuts_of(
        config.target.consumer,
        {tp: CopiedTo(copies[tp], at.downstream, stamps[tp].target) for tp, at in copied.items()},
        target,
    )
    return replace(
        spans,
        epochs={tp: Epochs(source.get(tp), target.get(tp)) for tp in source.keys() | target.keys()},
        source_cuts=ours[0],
        target_cuts=theirs[0],
        unsure=(ours[1], theirs[1]),
    )


def _epochs(
    cluster: Cluster, partitions: Mapping[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        found = cluster.leader_epochs(list(partitions.values()))
    except ClusterError as error:  # whoever needs the cluster meets the same, and says it
        log.info("leader_epochs_unknown", text=error)
        return {}
    return {tp: found[at] for tp, at in partitions.items() if at in found}


class CopiedTo(NamedTuple):
    """A partition on its side, the offset up to which it was copied, and what is known of it."""

    own: TopicPartition
    at: int
    stamp: Stamp | None


def cuts_of(
    consumer: Mapping[str, str],
    copied: Mapping[TopicPartition, CopiedTo],
    now: Mapping[TopicPartition, int | None],
) -> tuple[dict[TopicPartition, int], frozenset[TopicPartition]]:
    """Returns where logs were cut, and of which of them nobody knows it, by upstream partition."""
    doubts = {
        own: stamp
        for tp, (own, _, stamp) in copied.items()
        if stamp is not None and is_in_doubt(stamp, now.get(tp))
    }
    same = parted_at(consumer, doubts)
    found = {
        tp: cut_of(at, stamp, now.get(tp), same.get(own))
        for tp, (own, at, stamp) in copied.items()
        if at  # of what was not copied, nothing can be lost
    }
    cuts = {tp: cut for tp, cut in found.items() if isinstance(cut, int)}
    return cuts, frozenset(tp for tp, cut in found.items() if cut == "unknown")


def settled_spans(
    context: FlowClients, plan: TopicPlan, known: Stored, in_flight: InFlight = "reported"
) -> LogSpans:
    """Waits until nothing is in flight to *plan*'s partitions; returns their spans."""
    if in_flight == "nothing":
        return current_spans(context, plan, known)
    empty = _empty_copies(plan, known)
    written = {tp: copy for tp, copy in plan.copies.items() if copy not in empty}
    settled = settled_log_ends(
        context.target,
        list(written.values()),
        context.started_spark,
        context.config.flow,
        shared={copy for tp, copy in written.items() if plan.is_shared(tp)},
        is_reported_only=in_flight == "reported",
    )
    spans = _spans(context, plan, known, {**empty, **settled.ends})
    return replace(spans, held=settled.held)


def current_spans(context: FlowClients, plan: TopicPlan, known: Stored) -> LogSpans:
    """Returns the spans of *plan*'s partitions, to which nothing of the flow can be in flight."""
    empty = _empty_copies(plan, known)
    written = [copy for copy in plan.copies.values() if copy not in empty]
    return _spans(context, plan, known, {**empty, **context.target.log_ends(written)})


def _empty_copies(plan: TopicPlan, known: Stored) -> dict[TopicPartition, int]:
    """Returns the remote partitions of *plan* that nothing was written to, with their ends.

    They are of topics that were created for it just now, and that no query of the flow has written
    before. A broker takes seconds for the logs of a thousand new partitions, and does not say where
    one ends before it has them all. What a stranger writes there is found by the first report.
    """
    return {
        copy: 0
        for tp, copy in plan.copies.items()
        if copy.topic in plan.made
        and copy.topic not in known.remote_ids
        and tp not in known.anchors
        and not plan.is_shared(tp)
    }


def _spans(
    context: FlowClients, plan: TopicPlan, known: Stored, ends: Mapping[TopicPartition, int]
) -> LogSpans:
    copies = plan.copies
    spans = LogSpans(
        context.source.earliest(copies),
        context.source.log_ends(copies, context.config.isolation),
        {tp: ends[copy] for tp, copy in copies.items() if copy in ends},
        compare_ids(context.source, context.target, plan).changed,  # after the offsets
    )
    return with_cuts(context.config, (context.source, context.target), plan, known, spans)
