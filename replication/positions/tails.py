"""The last records of many partitions, reduced to hashes, so that both sides can be compared.

A consumer for each cluster reads a limited number of partitions at a time; of a record only its
offset, its timestamp and a hash stay in memory.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from replication.kafka.reader import PARTITIONS_AT_ONCE, chunks
from replication.model import TopicPartition
from replication.offsets.fingerprint import Fingerprint
from replication.positions.originals import Copies, Originals, Prints
from replication.positions.sides import FlowSides
from replication.topics.copy_rule import copy_rule

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


def matching_tails(context: FlowSides, tails: Sequence[CountedTail]) -> set[TopicPartition]:
    """Returns the partitions in *tails* whose last records are the same on both sides, in order.

    Target records that compaction has removed are skipped; the others must match by offset.

    Raises:
        ClusterError: A cluster does not answer.
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

    Args:
        reader: Of the side.
        spans: First offset and end offset by partition, as `Reader.visit` takes them.
        wanted: The number of records; there may be fewer.
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
