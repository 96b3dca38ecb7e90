"""The second step: what settings and single records say of the starts that offsets decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from replication.errors import ClusterError
from replication.kafka.api import KafkaRecord
from replication.kafka.java_admin import parted_at
from replication.kafka.reader import read_records
from replication.log import Log
from replication.model import Position, TopicPartition
from replication.offsets.copy_rule import CopyRule, Fingerprint
from replication.offsets.guard import (
    CountAhead,
    Decision,
    Refusal,
    Resume,
    cut,
    source_truncated,
    target_truncated,
    with_map,
)
from replication.offsets.map import Exact, OffsetMap, sure_offset
from replication.offsets.runs import OffsetRun, Stamp
from replication.positions.expire import find_expired
from replication.positions.flow_clients import FlowClients
from replication.positions.originals import Copies, Originals, fingerprints_at, last_fingerprints
from replication.positions.survey import LogSpans, Stored
from replication.topics.topic_plan import TopicPlan, copy_rule

log = Log(__name__)

# Finds how far a log that was truncated still has the records that the offset map states.
#
# An unclean leader election cuts the end off a log, and other records take the offsets. Up to the
# cut, each record of the source equals its copy; after it, none does. So a binary search finds it.

CUT = frozenset({"source-truncated", "target-truncated"})
"""The causes that `with_cut` refines."""


def with_cut(
    context: FlowClients,
    pair: tuple[TopicPartition, TopicPartition],
    refusal: Refusal,
    runs: Sequence[OffsetRun],
    *,
    is_shared: bool = False,
) -> Refusal:
    """Refines *refusal* of a truncated log by where the cut is, if that can be found.

    Going on at the cut loses nothing that the source still has, and repeats nothing.

    *pair* is the upstream partition and the remote one, *runs* its offset map. If it *is_shared*,
    others write there as well: then only the records that the map has are compared.
    """
    copies = _ComparedCopies(context, *pair, OffsetMap(runs))
    if refusal.cause == "target-truncated" and is_shared:
        return _with_shared_cut(copies, refusal, runs)
    if refusal.cause == "target-truncated":
        mapped = max((run.tgt_until for run in runs), default=0)
        until = min(mapped, refusal.log_end) if refusal.cut is None else refusal.cut
        cut = _last_equal(copies.is_copy_equal, 0, until)
        if cut is None:  # nothing of the map can be trusted
            return replace(
                refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
            )
        return with_map(refusal, runs, cut)
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.skip)
    if cut is None:
        return refusal
    text = f"{refusal.text}; up to offset {cut} it has the records that were copied"
    return replace(refusal, text=text, replicated=cut, skip=cut, restart=cut)


def _with_shared_cut(
    copies: "_ComparedCopies", refusal: Refusal, runs: Sequence[OffsetRun]
) -> Refusal:
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.skip)
    at = None if cut is None else sure_offset(copies.offsets.translate(cut))
    if at is None:
        return replace(
            refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
        )
    return with_map(refusal, runs, at)


def _last_equal(is_equal: Callable[[int], bool | None], start: int, end: int) -> int | None:
    """Returns the last offset up to which records are equal; None if that is unknown.

    *is_equal* says it of the last record before an offset, None if that is unknown. Up to *start*
    they are; *end* is the first offset that is tried.
    """
    low, high, middle = start, end, end
    while low < high:
        found = is_equal(middle)
        if found is None:
            return None
        low, high = (middle, high) if found else (low, middle - 1)
        middle = (low + high + 1) // 2
    return low


@dataclass(frozen=True, slots=True)
class _ComparedCopies:
    """A partition, its copy and its map, compared record by record."""

    context: FlowClients
    tp: TopicPartition
    remote: TopicPartition
    offsets: OffsetMap

    @property
    def rule(self) -> CopyRule:
        return copy_rule(self.context.config, [self.tp.topic])

    def is_original_equal(self, until: int) -> bool | None:
        original = self._original((0, until))
        if original is None:
            return True
        at = sure_offset(self.offsets.translate(original.offset))
        if at is None:
            return None
        target = self.context.config.target.consumer, self.remote
        copies = read_records(*target, at, at + 1, "read_uncommitted")
        return original.equals(self.rule.copy(copies[0])) if copies else None

    def is_copy_equal(self, until: int) -> bool | None:
        target = self.context.config.target.consumer, self.remote
        copy = _last_record(*target, until)
        if copy is None:
            return True
        at = self.offsets.translate_back(copy.offset)
        if not isinstance(at, Exact):
            return None
        span = at.offset, at.offset + 1
        if (original := self._original(span)) is not None:
            return original.equals(self.rule.copy(copy))
        source = self.context.config.source.consumer, self.tp
        return False if read_records(*source, *span, self.context.config.isolation) else None

    def _original(self, span: tuple[int, int]) -> Fingerprint | None:
        source, tp = self.context.source, self.tp
        first = source.earliest([tp]).get(tp, 0)
        end = source.log_ends([tp], self.context.config.isolation).get(tp, 0)
        held = max(span[0], first), min(span[1], end)
        if held[0] >= held[1]:
            return None
        with Originals(self.context, self.rule) as originals:
            found = last_fingerprints(originals, {tp: held}, {tp: 1})[tp]
        return found[-1] if found else None


def _last_record(
    consumer: Mapping[str, str], remote: TopicPartition, until: int
) -> KafkaRecord | None:
    """Returns the last record of the target before *until*; reads further back where it must."""
    width = 1
    while True:
        begin = max(0, until - width)
        found = read_records(consumer, remote, begin, until, "read_uncommitted")
        if found or not begin:
            return found[-1] if found else None
        width *= 4


# Notices by records that a log has lost its end and has grown again, where no broker says it.
#
# So it is where the offset map is of an earlier version, where brokers tell no leader epochs, and
# where records were copied while a leader changed. The last record that the map has is compared
# with its original.


def find_cuts(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Refusal]:
    """Returns the refusals of unsure partitions whose source or target was cut; usually none.

    A record that either side no longer has is not compared: retention may have deleted it.

    Args:
        context: The flow.
        plan: Its topics.
        stored: Its offset map.
        spans: Of the partitions.
        decisions: What the survey of them has found.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    resumed = {
        tp: at.anchor if isinstance(at, CountAhead) else at.position
        for tp, at in decisions.items()
        if isinstance(at, CountAhead | Resume) and any(tp in side for side in spans.unsure)
    }
    if not resumed:
        return {}
    rule = copy_rule(context.config, {tp.topic for tp in resumed})
    # a transform may give another value each time: a difference says nothing then
    resumed = {tp: at for tp, at in resumed.items() if tp.topic not in rule.chains}
    maps = stored.maps({tp: at.upstream for tp, at in resumed.items()})
    last = {
        tp: run
        for tp, found in maps.items()
        if (run := _last_copied(found.offsets.runs, resumed[tp]))
    }
    with Originals(context, rule) as source:
        offsets = {tp: run.src_until - 1 for tp, run in last.items()}
        originals = fingerprints_at(source, offsets)
    with Copies(context, rule, "read_uncommitted") as target:
        offsets = {plan.copy_of(tp): run.tgt_until - 1 for tp, run in last.items()}
        copies = fingerprints_at(target, offsets)
    return {
        tp: _refusal(context, plan, stored, spans, tp, run)
        for tp, run in last.items()
        if tp in originals and not originals[tp].equals(copies.get(plan.copy_of(tp), originals[tp]))
    }


def read_over(
    context: FlowClients,
    plan: TopicPlan,
    runs: Mapping[TopicPartition, Sequence[OffsetRun]],
    doubts: Mapping[TopicPartition, Stamp],
) -> dict[TopicPartition, list[OffsetRun]]:
    """Finds partitions whose source was cut in *runs*, and has grown again before anybody asked.

    A reader that does not ask the new leader goes on where the cut-off records ended. So the later
    leader's first record is not the one that was copied from its place.

    Args:
        context: The flow.
        plan: Its topics.
        runs: What was copied since the offset map was written.
        doubts: The earlier leaders of partitions that have another one since, and the ends of
            *runs*, some of which were copied from the later one.

    Returns:
        The runs up to the first record that was cut off, which is the last of them.
    """
    rule = copy_rule(context.config, {tp.topic for tp in doubts})
    # a transform may give another value each time: a difference says nothing then
    asked = {tp: stamp for tp, stamp in doubts.items() if tp.topic not in rule.chains}
    parted = parted_at(context.config.source.consumer, asked)
    begins = {tp: at for tp, at in parted.items() if at < asked[tp].until}
    if not begins:
        return {}
    firsts = dict[TopicPartition, Fingerprint]()
    try:
        ends = context.source.log_ends(list(begins), context.config.isolation)
        spans = {
            tp: (at, max(at, min(ends.get(tp, at), asked[tp].until))) for tp, at in begins.items()
        }
        with Originals(context, rule) as source:
            source.visit(spans, lambda tp, one: not firsts.update({tp: one}))
        copied = {
            tp: at.offset
            for tp, one in firsts.items()
            if isinstance(at := OffsetMap(runs[tp]).translate(one.offset), Exact)
        }
        with Copies(context, rule, "read_uncommitted") as target:
            copies = fingerprints_at(target, {plan.copy_of(tp): at for tp, at in copied.items()})
    except ClusterError as error:
        log.info("epoch_ends_unknown", text=error)
        return {}
    return {
        tp: [*cut(runs[tp], at), OffsetRun(firsts[tp].offset, firsts[tp].offset + 1, at, 1)]
        for tp, at in copied.items()
        if (copy := copies.get(plan.copy_of(tp))) and not firsts[tp].equals(copy)
    }


def _last_copied(runs: Sequence[OffsetRun], at: Position) -> OffsetRun | None:
    """Returns the last run on the target, if of its last record both offsets are known.

    One that lies before a place to which the flow has gone back may be of records that the source
    has lost since, which somebody has decided on.
    """
    copied = (run for run in runs if run.count)
    last = max(copied, key=lambda run: run.tgt_until, default=None)
    if last is None or not last.is_dense:
        return None
    is_before = last.src_until <= at.upstream and last.tgt_until <= at.downstream
    return last if is_before else None


def _refusal(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    tp: TopicPartition,
    run: OffsetRun,
) -> Refusal:
    """Returns the refusal of *tp*, of whose *run* the last record and its copy differ."""
    remote, (earliest, end), log_end = plan.copy_of(tp), spans.source(tp), spans.target_ends[tp]
    pair, runs, is_shared = (tp, remote), stored.runs(tp), plan.is_shared(tp)
    own, copy = f"offset {run.src_until - 1}", f"offset {run.tgt_until - 1}"
    at = max(earliest, min(run.src_until, end))
    of_source = replace(
        source_truncated(run.end, (earliest, end), log_end, None),
        text=f"{own} of {tp} no longer holds the record that was copied to {copy} of {remote}: the "
        "end of its log was lost, and other records have taken its place",
        skip=at,
    )
    of_target = replace(
        target_truncated(run.end, (earliest, end), log_end, None),
        text=f"{copy} of {remote} no longer holds the copy of {own}: the end of its log was lost, "
        "and others have written there since",
    )
    is_source_sure, is_target_sure = (tp not in unsure for unsure in spans.unsure)
    refined = with_cut(context, pair, of_source, runs, is_shared=is_shared)
    if is_target_sure or (not is_source_sure and _side(context, pair, refined, runs) == "source"):
        return replace(refined, since=None) if is_shared else refined
    return with_cut(context, pair, of_target, runs, is_shared=is_shared)


def _side(
    context: FlowClients,
    pair: tuple[TopicPartition, TopicPartition],
    refusal: Refusal,
    runs: Sequence[OffsetRun],
) -> Literal["source", "target"]:
    """Returns which side was cut: there, a leader of a later epoch goes on.

    Where both or neither do, it is the source: going on at the cut loses nothing then.
    """
    if refusal.replicated is None:
        return "source"
    at = sure_offset(OffsetMap(runs).translate(refusal.replicated))
    if at is None:
        return "source"
    config = context.config
    steps = (
        _is_step(config.source.consumer, pair[0], refusal.replicated),
        _is_step(config.target.consumer, pair[1], at),
    )
    return "target" if steps == (False, True) else "source"


def _is_step(consumer: Mapping[str, str], tp: TopicPartition, offset: int) -> bool:
    """Returns whether the record at *offset* is of a later leader than the one before it."""
    found = read_records(consumer, tp, max(0, offset - 1), offset + 1, "read_uncommitted")
    epochs = [one.epoch for one in found]
    return len(set(epochs)) > 1 or (offset == 0 and bool(epochs) and epochs[0] != 0)


def refine(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Decision]:
    """Refuses starts that would lose records all the same, and finds where logs were cut.

    Quick: of most partitions no record is read, of the others a few.

    Raises:
        ClusterError: A cluster does not answer.
    """
    clusters = context.source, context.target
    refined: dict[TopicPartition, Decision] = dict(decisions)
    refined |= find_expired(context.config, plan, clusters, spans, decisions)
    by_records = find_cuts(context, plan, stored, spans, refined)
    for tp, at in refined.items():
        if isinstance(at, Refusal) and at.cause in CUT:
            pair, is_shared = (tp, plan.copy_of(tp)), plan.is_shared(tp)
            refined[tp] = with_cut(context, pair, at, stored.runs(tp), is_shared=is_shared)
    return refined | by_records
