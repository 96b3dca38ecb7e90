"""Records of both sides, reduced to what is compared, whoever evaluates what a copy looks like.

Kafka's client reads the copies, and the originals of topics without transforms. Of the others only
Spark knows what their copies are, so it reads and hashes them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from pyspark.sql import DataFrame, Row, SparkSession

from replication.config.transforms import is_same_chain
from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.reader import PARTITIONS_AT_ONCE, Reader, chunks
from replication.log import Log
from replication.model import Chain, Isolation, TopicPartition
from replication.offsets.copy_rule import CopyRule, Fingerprint
from replication.positions.flow_clients import FlowClients, compared
from replication.positions.survey import Stored
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.copies import NO_TIME, digested_originals, digested_trial, next_originals
from replication.spark.counting import ThrowingRecord, read_windows, throwing_records
from replication.spark.transform_check import chain_problems, transform_problems
from replication.topics.topic_plan import TopicPlan, copy_rule

log = Log(__name__)

Spans = Mapping[TopicPartition, tuple[int, int]]
"""First offset and end offset by partition, as `Reader.visit` takes them."""


@dataclass(frozen=True, slots=True)
class Original(Fingerprint):
    """A record of the source that is copied, with the bytes of its copy."""

    size: int


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The first record of a span that is copied, or that a transform fails on.

    Args:
        offset: Its place.
        size: The bytes of its copy.
        failure: Why it cannot be copied; empty if nothing keeps it.
    """

    offset: int
    size: int
    failure: str = ""


class Prints(Protocol):
    """Reads records of one side as fingerprints; those that are not copied are left out."""

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Fingerprint], object]) -> None:
        """Calls *visit* with each, in order; a true answer ends the reading of a partition."""


class Copies(AbstractContextManager["Copies"]):
    """The records of a target.

    Args:
        context: The flow.
        rule: What a copy looks like.
        isolation: Whether aborted and open transactions are left out.
    """

    def __init__(self, context: FlowClients, rule: CopyRule, isolation: Isolation) -> None:
        self._reader = Reader(context.config.target.consumer, isolation)
        self._rule = rule

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Fingerprint], object]) -> None:
        """Calls *visit* with each record, in order.

        Raises:
            CallError: The target does not answer.
        """
        self._reader.visit(spans, lambda tp, record: visit(tp, self._rule.copy(record)))


class Originals(AbstractContextManager["Originals"]):
    """The records of a source, as their copies are.

    Args:
        context: The flow.
        rule: What a copy looks like.
    """

    def __init__(self, context: FlowClients, rule: CopyRule) -> None:
        config = context.config
        self._context = context
        self._reader = Reader(config.source.consumer, config.isolation)
        self._rule = rule

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Original], object]) -> None:
        """Calls *visit* with each record that is copied, in order.

        Raises:
            ClusterError: The source does not answer, or Spark cannot read it.
        """
        plain = {tp: span for tp, span in spans.items() if tp.topic not in self._rule.chains}
        self._reader.visit(plain, partial(_visit_copied, self._rule, visit))
        changed = {tp: span for tp, span in spans.items() if tp not in plain}
        for some in chunks(changed.items(), PARTITIONS_AT_ONCE):
            done = set[TopicPartition]()
            for tp, one in self._evaluated(dict(some)):
                if tp not in done and visit(tp, one):
                    done.add(tp)

    def next(self, spans: Spans) -> dict[TopicPartition, NextRecord]:
        """Returns the first record of each span that is not left out; absent where there is none.

        Raises:
            ClusterError: The source does not answer, or Spark cannot read it.
        """
        found: dict[TopicPartition, NextRecord] = {}

        def take(tp: TopicPartition, one: Original) -> bool:
            found[tp] = NextRecord(one.offset, one.size)
            return True

        plain = {tp: span for tp, span in spans.items() if tp.topic not in self._rule.chains}
        self._reader.visit(plain, partial(_visit_copied, self._rule, take))
        if not (windows := self._held({tp: at for tp, at in spans.items() if tp not in plain})):
            return found
        rows, throwing = self._rows(windows, next_originals)
        for tp, at in throwing.items():
            text = f"the transforms fail on {tp} offset {at.offset}: {at.text}"
            found[tp] = NextRecord(at.offset, 0, text)
        for row in rows:
            tp = TopicPartition(row.topic, row.partition)
            found[tp] = NextRecord(row.offset, row.size, row.failure or "")
        return found

    def _evaluated(self, spans: Spans) -> Iterator[tuple[TopicPartition, Original]]:
        if not (windows := self._held(spans)):
            return
        rows, _ = self._rows(windows, digested_originals)
        for row in rows:
            time_ms = None if row.time_ms == NO_TIME else row.time_ms
            one = Original(row.offset, bytes.fromhex(row.content), time_ms, row.size)
            yield TopicPartition(row.topic, row.partition), one

    def _rows(
        self, windows: Spans, evaluate: Callable[[DataFrame, CopyRule], DataFrame]
    ) -> tuple[list[Row], dict[TopicPartition, ThrowingRecord]]:
        """Returns what *evaluate* says of *windows*, up to the records that it throws on."""
        rule = self._rule.only({tp.topic for tp in windows})

        def evaluated(records: DataFrame) -> DataFrame:
            return evaluate(records, rule)

        with compared(self._context.config.flow):
            try:
                return evaluated(self._records(windows)).collect(), {}
            except SPARK_ERRORS:
                throwing = throwing_records(self._records, evaluated, windows)
                if not throwing:
                    raise
            left = {
                tp: (start, throwing[tp].offset if tp in throwing else until)
                for tp, (start, until) in windows.items()
            }
            left = {tp: at for tp, at in left.items() if at[0] < at[1]}
            return evaluated(self._records(left)).collect() if left else [], throwing

    def _held(self, spans: Spans) -> dict[TopicPartition, tuple[int, int]]:
        """Returns what the source still has of *spans*: Spark reads nothing else."""
        earliest = self._context.source.earliest(spans) if spans else {}
        held = {tp: (max(at[0], earliest.get(tp, at[0])), at[1]) for tp, at in spans.items()}
        return {tp: window for tp, window in held.items() if window[0] < window[1]}

    def _records(self, windows: Spans) -> DataFrame:
        return read_windows(self._context.spark, self._context.config.source.consumer, windows)


def _visit_copied(
    rule: CopyRule,
    visit: Callable[[TopicPartition, Original], object],
    tp: TopicPartition,
    record: KafkaRecord,
) -> object:
    one = rule.original(tp.topic, record)
    if one is None:
        return False
    return visit(tp, Original(one.offset, one.content, one.time_ms, rule.copy_of(record).size))


# The sides of a flow as its newest copies were written: by the transforms of that time.
#
# A start that finds other transforms in its file still counts and compares what an earlier process
# wrote, which only the transforms of that process explain.


@dataclass(frozen=True, slots=True)
class _Written:
    """The sides of *context* with another configuration."""

    context: FlowClients
    config: FlowConfig

    @property
    def source(self) -> Cluster:
        return self.context.source

    @property
    def target(self) -> Cluster:
        return self.context.target

    @property
    def spark(self) -> SparkSession:
        return self.context.spark

    @property
    def started_spark(self) -> SparkSession | None:
        return self.context.started_spark


def changed_transforms(plan: TopicPlan, stored: Stored) -> dict[str, Chain]:
    """Returns by what topics of *plan* were written, where that is not what the plan says."""
    return {
        topic: chain
        for topic, chain in stored.transforms.items()
        if topic in plan.topics and not is_same_chain(chain, plan.transforms.get(topic, ()))
    }


def as_written(context: FlowClients, plan: TopicPlan, stored: Stored) -> FlowClients:
    """Returns *context*, by whose configuration the newest copies of *plan*'s topics were made."""
    changed = changed_transforms(plan, stored)
    if not changed:
        return context
    return _Written(context, replace(context.config, written_by=changed))


def broken_transforms(context: FlowClients, topics: set[str]) -> Mapping[str, str]:
    """Returns why Spark does not evaluate what *topics* were written by, where that is so."""
    chains = {topic: at for topic, at in context.config.written_by.items() if topic in topics}
    found = {chain: chain_problems(context.spark, chain) for chain in set(chains.values())}
    return {
        topic: "; ".join(f"{part}: {text}" for part, text in found[chain])
        for topic, chain in chains.items()
        if found[chain]
    }


# The last records of many partitions, reduced to hashes, so that both sides can be compared.
#
# A consumer for each cluster reads a limited number of partitions at a time; of a record only its
# offset, its timestamp and a hash stay in memory.

COMPARED_RECORDS = 20
"""The number of records at the end of a span that are compared one by one."""


@dataclass(frozen=True, slots=True)
class CountedTail:
    """A span of counted records, whose ends on both sides are to be compared.

    Args:
        tp: The upstream partition.
        span: First offset and end offset upstream.
        remote: The remote partition.
        records: The number of records in the span.
        end: Their end offset downstream.
    """

    tp: TopicPartition
    span: tuple[int, int]
    remote: TopicPartition
    records: int
    end: int


def matching_tails(context: FlowClients, tails: Sequence[CountedTail]) -> set[TopicPartition]:
    """Returns the partitions in *tails* whose last records are the same on both sides, in order.

    Target records that compaction has removed are skipped; the others must match by offset.
    """
    rule = copy_rule(context.config, (tail.tp.topic for tail in tails))
    matching = set[TopicPartition]()
    with (
        Originals(context, rule) as source,
        Copies(context, rule, "read_uncommitted") as target,
        ThreadPoolExecutor(1) as pool,
    ):
        for some in chunks(tails, PARTITIONS_AT_ONCE):
            counts = {}
            for tail in some:
                counts[tail.tp] = counts[tail.remote] = min(COMPARED_RECORDS, tail.records)
            spans = {tail.tp: tail.span for tail in some}
            ends = {tail.remote: (tail.end - counts[tail.remote], tail.end) for tail in some}
            written = pool.submit(last_fingerprints, target, ends, counts)
            upstream = last_fingerprints(source, spans, counts)
            for tail in some:
                expected = dict(enumerate(reversed(upstream[tail.tp]), start=1))
                if all(
                    (place := tail.end - record.offset) in expected
                    and expected[place].equals(record)
                    for record in written.result()[tail.remote]
                ):
                    matching.add(tail.tp)
    return matching


def last_fingerprints(
    reader: Prints,
    spans: Mapping[TopicPartition, tuple[int, int]],
    wanted: Mapping[TopicPartition, int],
) -> dict[TopicPartition, list[Fingerprint]]:
    """Returns the last records of each of *spans*; reads further back where offsets have gaps.

    There may be fewer than *wanted*.
    """
    found: dict[TopicPartition, list[Fingerprint]] = {}
    left, factor = dict(spans), 1
    while left:
        windows = {
            tp: (max(start, until - factor * wanted[tp]), until)
            for tp, (start, until) in left.items()
        }
        kept = {tp: deque[Fingerprint](maxlen=wanted[tp]) for tp in windows}
        reader.visit(windows, partial(_keep, kept))
        for tp, (begin, _) in windows.items():
            if len(kept[tp]) >= wanted[tp] or begin == spans[tp][0]:
                found[tp] = list(kept[tp])
                del left[tp]
        factor *= 4
    return found


def fingerprints_at(
    reader: Prints, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Fingerprint]:
    """Returns the record at one offset of each partition, reduced; absent where there is none."""
    found: dict[TopicPartition, Fingerprint] = {}

    def take(tp: TopicPartition, one: Fingerprint) -> None:
        found[tp] = one

    reader.visit({tp: (offset, offset + 1) for tp, offset in offsets.items()}, take)
    return found


def _keep(
    kept: Mapping[TopicPartition, deque[Fingerprint]], tp: TopicPartition, one: Fingerprint
) -> None:
    kept[tp].append(one)


# Tries a flow's transforms before they change a record: what must be refused.
#
# Reads both clusters, and a few records of the source; writes nothing.

SAMPLED_RECORDS: Final = 20
"""How many offsets at the end of a partition are evaluated twice."""

SAMPLED_PARTITIONS: Final = 100


def transform_refusals(context: FlowClients, plan: TopicPlan) -> list[str]:
    """Returns why the transforms of a flow must not change the records of *plan*'s topics.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    problems = [
        f"{config.flow}.replication.transforms.{one.name}.{part}: {text}"
        for one in config.transforms
        for part, text in transform_problems(context.spark, one)
    ]
    if problems or not plan.transforms:
        return problems
    unsafe = unsafe_keys(plan, context.source, context.target)
    return [*unsafe.values(), *_unsteady(context, plan)]


def unsafe_keys(plan: TopicPlan, source: Cluster, target: Cluster) -> dict[str, str]:
    """Returns why keys must not change, by upstream topic: the copies are compacted.

    Raises:
        ClusterError: A cluster does not answer.
    """
    changed = {
        topic: names
        for topic, chain in plan.transforms.items()
        if (names := [one.name for one in chain if one.key and not one.injective])
    }
    created = {new.name for new in plan.create}
    found = compacted_topics(target, {plan.topics[topic] for topic in changed} - created)
    found |= compacted_topics(source, {topic for topic in changed if plan.topics[topic] in created})
    return {
        topic: f"replication.transforms.{names[0]}.key: {plan.topics[topic]} is compacted "
        "(cleanup.policy), where records whose keys become one delete each other; if different "
        f"keys stay different, write replication.transforms.{names[0]}.key.injective: true"
        for topic, names in changed.items()
        if topic in found or plan.topics[topic] in found
    }


def compacted_topics(cluster: Cluster, topics: Collection[str]) -> set[str]:
    """Returns those of *topics* that *cluster* compacts, as far as it shows their settings."""
    if not topics:
        return set()
    settings = Rejections().call(cluster.topic_config, topics)
    policies = {name: own.get("cleanup.policy") for name, own in settings.items()}
    return {name for name, own in policies.items() if own and "compact" in (own.value or "")}


def _unsteady(context: FlowClients, plan: TopicPlan) -> list[str]:
    """Returns which topics' last records become something else when they are evaluated again.

    Two queries are analysed anew: within one, the present time and a random seed are fixed.
    """
    config = context.config
    tps = [tp for tp in plan.partitions if tp.topic in plan.transforms][:SAMPLED_PARTITIONS]
    starts, ends = context.source.earliest(tps), context.source.log_ends(tps, config.isolation)
    windows = {
        tp: (max(starts[tp], ends[tp] - SAMPLED_RECORDS), ends[tp])
        for tp in tps
        if tp in ends and starts.get(tp, ends[tp]) < ends[tp]
    }
    if not windows:
        return []
    try:
        first, second = (_digests(context, windows) for _ in range(2))
    except SPARK_ERRORS as error:  # a record may be to blame, and its topic is set aside then
        log.bind(config.flow).info("transforms_not_sampled", text=said(error))
        return []
    topics = sorted(
        {tp.topic for (tp, at), found in first.items() if second.get((tp, at)) != found}
    )
    return [
        f"replication.transforms {', '.join(one.name for one in plan.transforms[topic])}: a record "
        f"of {topic} became two different ones when it was evaluated twice; an expression must "
        "give the same for the same record each time"
        for topic in topics
    ]


def _digests(
    context: FlowClients, windows: Mapping[TopicPartition, tuple[int, int]]
) -> dict[tuple[TopicPartition, int], str]:
    rule = copy_rule(context.config, {tp.topic for tp in windows})
    records = read_windows(context.spark, context.config.source.consumer, windows)
    rows = digested_trial(records, rule.chains).collect()
    return {(TopicPartition(row.topic, row.partition), row.offset): row.digest for row in rows}
