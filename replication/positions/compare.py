"""The third step: records of both sides are compared where offsets alone do not tell the place."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import functions as F

from replication.errors import GuardError
from replication.log import Log
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.copy_rule import Alignment, align
from replication.offsets.guard import (
    CountAhead,
    Decision,
    Jump,
    MatchTail,
    Refusal,
    StartFresh,
    foreign,
    unmatched,
)
from replication.offsets.moved import MovedPosition
from replication.offsets.runs import OffsetRun, anchor
from replication.positions.flow_clients import FlowClients, sharing
from replication.positions.originals import CountedTail, broken_transforms, matching_tails
from replication.positions.place import Existing, Match, advice, match_existing_targets, take_over
from replication.positions.survey import Counted, LogSpans, Realigned, Stored
from replication.spark.causes import SPARK_ERRORS
from replication.spark.copies import copied
from replication.spark.counting import (
    CountedSpan,
    RecordSpan,
    offsets_after,
    read_windows,
    throwing_records,
)
from replication.spark.gaps import copies, originals
from replication.topics.topic_plan import TopicPlan, copy_rule

log = Log(__name__)


def realign(
    context: FlowClients,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    source_end: int,
) -> Alignment:
    """Finds the runs on which both sides agree, and where resuming loses nothing."""
    config = context.config
    start = counted.anchor
    windows = (start.upstream, source_end), (start.downstream, counted.log_end)
    rule = copy_rule(config, [tp.topic])
    source = originals(context.spark, config.source.consumer, tp, windows[0], rule)
    target = copies(context.spark, config.target.consumer, remote, windows[1], rule)
    return align(source, target, source_end=source_end)


def realigned_runs(
    tp: TopicPartition, remote: TopicPartition, counted: CountAhead, found: Alignment
) -> tuple[list[OffsetRun], NewEvent]:
    """Returns *found*'s runs, an anchor at the target's log end, and an event for the reason."""
    event = NewEvent(
        "realigned",
        f"{describe_alignment(remote, counted, found)}; resuming {tp} at offset "
        f"{found.upstream}, at-least-once",
        "at least once",
        {**tp._asdict(), "offset_from": counted.anchor.upstream, "offset_until": found.upstream},
    )
    return [*found.runs, anchor(Position(found.upstream, counted.log_end))], event


def describe_alignment(remote: TopicPartition, counted: CountAhead, found: Alignment) -> str:
    """Returns how many of the *counted* records match, for an operator."""
    return (
        f"{found.matched} of {counted.records} unrecorded records on {remote} match the source, "
        f"{found.target_only} do not"
    )


SEARCHED: Final = 100_000
"""How many offsets, and some for each record, are searched for one on which a transform throws."""

Verdict = Decision | Match | Counted | Realigned | Jump | MovedPosition
"""Where a partition resumes, or why it does not."""


@dataclass(frozen=True, slots=True)
class ComparedRecords:
    """What comparing records has found, by upstream partition.

    Args:
        verdicts: Of all partitions that were asked for.
        warnings: Why positions of MirrorMaker 2 cannot be used, one line each.
    """

    verdicts: Mapping[TopicPartition, Verdict]
    warnings: tuple[str, ...] = ()


def compare(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
    void: Mapping[TopicPartition, str],
) -> ComparedRecords:
    """Finds the places of those of *decisions* that only records tell; the others stay.

    Raises:
        ClusterError: A cluster does not answer.
        QueryError: A Spark job that compares records fails.
    """
    broken = _unevaluated(context, stored, spans, decisions)
    left = {tp: at for tp, at in decisions.items() if tp not in broken}
    placed = _place(context, plan, stored, spans, left, void)
    counted = _count(context, plan, spans, left)
    found = {**decisions, **placed.verdicts, **counted, **broken}
    return ComparedRecords(found, placed.warnings)


def _unevaluated(
    context: FlowClients,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Refusal]:
    """Refuses to compare what a transform wrote that Spark no longer evaluates."""
    ends = {
        tp: at.log_end if isinstance(at, CountAhead) else at.position.downstream
        for tp, at in decisions.items()
        if isinstance(at, (CountAhead, MatchTail))
    }
    found: dict[TopicPartition, Refusal] = {}
    broken = broken_transforms(context, {tp.topic for tp in ends})
    for tp, log_end in ends.items():
        if tp.topic in broken:
            known = stored.anchors.get(tp)
            text = (
                f"{tp}: the last records of its remote partition were written by a transform that "
                f"Spark {context.spark.version} does not evaluate ({broken[tp.topic]}): nobody can "
                "compare them. What it was is in the column transform of the table topics"
            )
            start = Position(spans.source(tp)[0], log_end)
            found[tp] = unmatched(text, start, spans.source(tp), known.position if known else None)
    return found


def _place(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
    void: Mapping[TopicPartition, str],
) -> ComparedRecords:
    tails = {tp: at.position for tp, at in decisions.items() if isinstance(at, MatchTail)}
    existing = {tp: Existing(plan.copy_of(tp), fresh) for tp, fresh in tails.items()}
    matches = match_existing_targets(context, existing)
    unknown = {tp for tp, at in matches.items() if isinstance(at, GuardError) or at.is_emptied}
    unknown -= stored.anchors.keys()  # copied by this mirror before
    ends = {tp: tails[tp].downstream for tp in unknown} | _unknown_of_shared(plan, decisions)
    taken_over = take_over(context.config, (context.source, context.target), ends)
    found: dict[TopicPartition, Verdict] = {}
    for tp, match in {**matches, **taken_over.found}.items():
        if isinstance(match, GuardError):
            anchor = stored.anchors.get(tp) if tp not in void else None
            since = anchor.position if anchor else None
            text = f"{match}. {advice(context.config, tp)}" if tp in unknown else str(match)
            found[tp] = unmatched(text, tails[tp], spans.source(tp), since)
        elif match.is_emptied and tp in unknown:
            found[tp] = replace(match, text=f"{match.text}. {advice(context.config, tp)}")
        else:
            found[tp] = match
    return ComparedRecords(found, taken_over.warnings)


def _unknown_of_shared(
    plan: TopicPlan, decisions: Mapping[TopicPartition, Decision]
) -> dict[TopicPartition, int]:
    """Returns the log ends of shared remote partitions that another replicator may have filled."""
    return {
        tp: at.position.downstream
        for tp, at in decisions.items()
        if isinstance(at, StartFresh) and at.position.downstream and plan.is_shared(tp)
    }


def _count(
    context: FlowClients,
    plan: TopicPlan,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Verdict]:
    wanted = {tp: at for tp, at in decisions.items() if isinstance(at, CountAhead)}
    if not wanted:
        return {}
    config = context.config
    records = sum(ahead.records for ahead in wanted.values())
    log.bind(config.flow).info("counting_unrecorded", records=records)
    ends = _ends(context, wanted, spans)
    tails = [
        CountedTail(
            tp,
            (ahead.anchor.upstream, ends[tp].until),
            plan.copy_of(tp),
            ahead.records,
            ahead.log_end,
        )
        for tp, ahead in wanted.items()
        if tp in ends
    ]
    matching = matching_tails(context, tails)
    found: dict[TopicPartition, Verdict] = {}
    for tp, ahead in wanted.items():
        if tp in matching:
            found[tp] = _counted(ahead, ends[tp])
        else:
            found[tp] = _realign(context, plan, spans, tp, ahead)
    return found


def _ends(
    context: FlowClients, wanted: Mapping[TopicPartition, CountAhead], spans: LogSpans
) -> dict[TopicPartition, CountedSpan]:
    """Finds where the source has as many records as the target; none follows one that throws."""
    config = context.config
    rule = copy_rule(config, {tp.topic for tp in wanted})
    consumer = config.source.consumer
    read = partial(read_windows, context.spark, consumer, sharing=sharing(context))
    counted = partial(
        offsets_after,
        read,
        {tp: RecordSpan(ahead.anchor.upstream, ahead.records) for tp, ahead in wanted.items()},
        rule=rule,
        spacing=config.offset_syncs.lag_max,
    )
    ends = spans.source_ends
    try:
        return counted(ends)
    except SPARK_ERRORS:
        windows = {
            tp: (start := at.anchor.upstream, min(ends[tp], start + SEARCHED + 16 * at.records))
            for tp, at in wanted.items()
            if tp.topic in rule.chains and at.anchor.upstream < ends[tp]
        }
        throwing = throwing_records(
            read, lambda records: copied(records, rule).agg(F.count("*")), windows
        )
        if not throwing:
            raise
        return counted({**ends, **{tp: at.offset for tp, at in throwing.items()}})


def _counted(ahead: CountAhead, span: CountedSpan) -> Counted:
    """Returns the run of the records *ahead*, in pieces where it has gaps."""
    at, records = ahead.anchor, ahead.records
    run = OffsetRun(at.upstream, span.until, at.downstream, records)
    parts, known = list[OffsetRun](), 0
    for number, until in (*span.borders, (records, span.until)):
        parts.append(OffsetRun(at.upstream, until, at.downstream, number - known))
        at, known = parts[-1].end, number
    return Counted(run, () if run.is_dense else tuple(parts))


def _realign(
    context: FlowClients, plan: TopicPlan, spans: LogSpans, tp: TopicPartition, ahead: CountAhead
) -> Realigned:
    remote, span = plan.copy_of(tp), spans.source(tp)
    aligned = realign(context, tp, remote, ahead, span[1])
    runs, event = realigned_runs(tp, remote, ahead, aligned)
    if not aligned.target_only:
        return Realigned(runs, event, None)
    text = (
        f"{describe_alignment(remote, ahead, aligned)}: another producer writes there, or "
        f"{context.config.flow.source} has deleted the originals since, as compaction does"
    )
    refusal = foreign(text, span, ahead.log_end, aligned.runs, aligned.upstream)
    return Realigned(runs, event, refusal)
