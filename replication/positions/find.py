"""Finds where each partition resumes: by the offset map and the target's log, so nothing repeats.

Four steps: `survey` by offsets and ids, `refine` by settings and a few records, `compare` by many
records, and `rule` by policy; then `moves` applies what operators ask of positions that are not in
doubt. The anchor is the last pair of equal positions in the offset map. Target records after it
were written by a batch that is not in the map, because the batch or its process was interrupted.
They are counted on the source, and the last of them are compared before the count is trusted.
Nothing is written here. A topic is decided as a whole: if one of its partitions cannot resume, none
of them has a position.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.copy_rule import Regrown, align_regrown
from replication.offsets.guard import Accepted, Jump, Missing, Refusal, Resume, StartFresh
from replication.offsets.moved import MovedPosition
from replication.offsets.runs import Epochs, OffsetRun, anchor, is_placed
from replication.positions.compare import Verdict, compare
from replication.positions.flow_clients import FlowClients
from replication.positions.measure import InFlight, current_spans, settled_spans
from replication.positions.originals import as_written
from replication.positions.place import Match
from replication.positions.refine import refine
from replication.positions.survey import (
    AskedPositions,
    Counted,
    LogSpans,
    Realigned,
    Stored,
    in_doubt,
    move_all,
    rule_all,
    survey,
)
from replication.spark.gaps import copies, originals
from replication.topics.topic_plan import TopicPlan, copy_rule

# Places partitions whose target was cut, and had got the flow's next records before it noticed.
#
# What was cut off is copied again behind them, once, and they stay. So the places are found in the
# logs alone, and a copy that is interrupted goes on where it was.

Windows = dict[TopicPartition, tuple[int, int]]


def place_regrown(
    context: FlowClients, plan: TopicPlan, ruled: Mapping[TopicPartition, Verdict]
) -> tuple[dict[TopicPartition, Jump], Windows]:
    """Returns where such partitions go on, and what has to be copied again before they can."""
    jumps: dict[TopicPartition, Jump] = {}
    missing: Windows = {}
    for tp, jump in ruled.items():
        if not isinstance(jump, Jump) or plan.is_shared(tp):
            continue
        refusal = jump.refusal
        is_at_cut = jump.decided_by == "skip" or jump.position.upstream == refusal.restart
        if refusal.cause != "target-truncated" or not is_at_cut or not refusal.remaining_runs:
            continue
        found = _regrown(context, tp, plan.copy_of(tp), refusal)
        if found is None:
            continue
        if found.missing and jump.decided_by != "skip":
            missing[tp] = found.missing
        refusal, (first, until) = jump.refusal, found.present
        has = (
            f"behind the cut the target has got the copies of source offsets {first} to {until - 1}"
        )
        refusal = replace(
            refusal, matched=found.runs, skip=until, restart=until, present_from=first,
            text=f"{refusal.text}; {has}",
        )  # fmt: skip
        if jump.decided_by != "skip":
            lost = f"{refusal.replicated} to {first - 1}"
            text = f"{refusal.text}, and then once more those of {lost}, which were cut off"
            refusal = replace(refusal, replicated=until, text=text)
        jumps[tp] = replace(jump, position=Position(until, refusal.log_end), refusal=refusal)
    return jumps, missing


def _regrown(
    context: FlowClients, tp: TopicPartition, remote: TopicPartition, refusal: Refusal
) -> Regrown | None:
    lost_from, cut = refusal.replicated, refusal.cut
    if lost_from is None or cut is None or cut >= refusal.log_end or lost_from < refusal.earliest:
        return None
    config, rule = context.config, copy_rule(context.config, [tp.topic])
    window = lost_from, refusal.end
    return align_regrown(
        lost_from,
        partial(originals, context.spark, config.source.consumer, tp, window, rule),
        copies(context.spark, config.target.consumer, remote, (cut, refusal.log_end), rule),
        source_end=refusal.end,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """Where the partitions of a plan resume, and what the offset map is to say of it.

    Nothing of it is written yet. Partitions of topics in ``refused`` and ``gone`` do not resume.

    Args:
        verdicts: How each partition resumes.
        resumed: The positions that the offset map gives as it is.
        new_runs: What the map lacks of the other partitions; they resume where it ends then.
        recut: Whole maps of partitions whose target has lost records, up to where they resume.
        void: Partitions whose stored map is of deleted topics, and what was deleted.
        recreated: Partitions of a source topic that was created again.
        adopted: Partitions of a target that was written by others and has no gap that is known.
        events: What an operator is to know of the starts.
        refused: Why continuing would lose or repeat records, by upstream partition.
        gone: Topics that were deleted on one of the clusters since the plan was made.
        warnings: Why positions of MirrorMaker 2 cannot be used, one line each.
        held: As in `LogSpans`.
        unmoved: Why operators' moves of partitions are of no use any more.
        epochs: As in `LogSpans`.
        missing: What was cut off the target and has to be copied again before the partitions have
            their places: the source offsets of the first record and behind the last.
    """

    verdicts: Mapping[TopicPartition, Verdict]
    resumed: Mapping[TopicPartition, Position]
    new_runs: Mapping[TopicPartition, Sequence[OffsetRun]]
    recut: Mapping[TopicPartition, Sequence[OffsetRun]]
    void: Mapping[TopicPartition, str]
    recreated: frozenset[TopicPartition]
    adopted: frozenset[TopicPartition]
    events: tuple[NewEvent, ...]
    refused: Mapping[TopicPartition, Refusal] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    held: frozenset[TopicPartition] = frozenset()
    unmoved: Mapping[TopicPartition, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)
    missing: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """Where partitions resume, by upstream partition."""
        written = {**self.new_runs, **self.recut}
        return {**self.resumed, **{tp: runs[-1].end for tp, runs in written.items()}}

    @property
    def is_whole(self) -> bool:
        """Whether all partitions resume, and nothing that an earlier query sent is on its way."""
        return not (self.refused or self.gone or self.held)

    @property
    def unmatched(self) -> dict[TopicPartition, int]:
        """Target log ends at which comparing records has found nothing: only a change can help."""
        causes = {"unmatched", "foreign-records"}
        return {tp: at.log_end for tp, at in self.refused.items() if at.cause in causes}


def find_positions(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    asked: AskedPositions,
    *,
    in_flight: InFlight = "reported",
    rejected: Collection[TopicPartition] = (),
) -> Found:
    """Finds where the partitions of *plan* resume; writes nothing.

    Args:
        context: The flow.
        plan: Its topics; no query replicates them.
        stored: The offset map.
        asked: What operators ask of the positions.
        in_flight: What may be on its way to these partitions, and is waited for.
        rejected: Partitions whose next record the target has rejected.

    Raises:
        ClusterError: A cluster does not answer.
    """
    spans = settled_spans(context, plan, stored, in_flight)
    return find_by_spans(context, plan, stored, spans, asked, rejected)


def find_by_spans(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    asked: AskedPositions,
    rejected: Collection[TopicPartition] = (),
) -> Found:
    """Finds as `find_positions` does, where the logs of both sides begin and end as *spans* says.

    Raises:
        ClusterError: A cluster does not answer.
    """
    context = as_written(context, plan, stored)
    config = context.config
    surveyed = survey(config, plan, stored, spans)
    refined = refine(context, plan, stored, spans, surveyed.decisions)
    # of topics that cannot go on all the same, no records are compared
    left_out = _left_out(spans, rule_all(config, plan, refined, asked.accepted))
    left = {tp: at for tp, at in refined.items() if tp.topic not in left_out}
    compared = compare(context, plan, stored, spans, left, surveyed.void)
    ruled = rule_all(config, plan, {**refined, **compared.verdicts}, asked.accepted)
    left_out = _left_out(spans, ruled)
    going = {tp: at for tp, at in ruled.items() if tp.topic not in left_out}
    regrown, missing = place_regrown(context, plan, going)
    ruled |= regrown
    found = {tp: at for tp, at in ruled.items() if tp.topic not in left_out}
    moved, unmoved = move_all(plan, spans, found, asked.moves)
    return replace(
        _found(
            stored,
            {**found, **moved},
            surveyed.void,
            {tp: spans.target_ends[tp] for tp in rejected if tp in found},
        ),
        refused=_refused(spans, ruled),
        gone=_gone(spans, ruled),
        warnings=compared.warnings,
        held=spans.held,
        unmoved=unmoved,
        epochs=spans.epochs,
        missing=missing,
    )


def find_problems(
    context: FlowClients,
    plan: TopicPlan,
    stored: Stored,
    unmatched: Mapping[TopicPartition, int],
    accepted: Mapping[TopicPartition, Accepted],
) -> dict[TopicPartition, Refusal]:
    """Finds why partitions of *plan*, which no query replicates now, cannot resume safely.

    Quick: almost no records are read. The answer for a target that has not grown since its records
    were compared is known.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        unmatched: Target log ends at which comparing records has found nothing.
        accepted: What operators have accepted.

    Raises:
        ClusterError: A cluster does not answer.
    """
    context = as_written(context, plan, stored)
    config, spans = context.config, current_spans(context, plan, stored)
    surveyed = survey(config, plan, stored, spans)
    refined = refine(context, plan, stored, spans, surveyed.decisions)
    ruled = rule_all(config, plan, refined, accepted)
    left_out = _left_out(spans, ruled)
    known = {
        tp: doubt
        for tp, doubt in in_doubt(spans, refined, unmatched).items()
        if unmatched.get(tp) == doubt.log_end and tp.topic not in left_out
    }
    return _refused(spans, {**ruled, **rule_all(config, plan, known, accepted)})


def topics_of(partitions: Collection[TopicPartition]) -> set[str]:
    """Returns the topics of *partitions*."""
    return {tp.topic for tp in partitions}


def _gone(spans: LogSpans, ruled: Mapping[TopicPartition, Verdict]) -> frozenset[str]:
    return spans.replaced | {tp.topic for tp, at in ruled.items() if isinstance(at, Missing)}


def _refused(
    spans: LogSpans, ruled: Mapping[TopicPartition, Verdict]
) -> dict[TopicPartition, Refusal]:
    gone = _gone(spans, ruled)
    return {tp: at for tp, at in ruled.items() if isinstance(at, Refusal) and tp.topic not in gone}


def _left_out(spans: LogSpans, ruled: Mapping[TopicPartition, Verdict]) -> frozenset[str]:
    """Returns the topics none of whose partitions resumes: a topic is decided as a whole."""
    return _gone(spans, ruled) | topics_of(_refused(spans, ruled))


def _found(
    stored: Stored,
    found: Mapping[TopicPartition, Verdict],
    void: Mapping[TopicPartition, str],
    rejected: Mapping[TopicPartition, int],
) -> Found:
    """Returns what follows from *found* for the offset map and the events.

    *rejected* are target log ends of partitions whose next record was rejected.
    """
    new_runs, events = {}, list[NewEvent]()
    for tp, at in found.items():
        known = stored.anchors.get(tp) if tp not in void else None
        if runs := _new_runs(at, known.position if known else None):
            new_runs[tp] = runs
        if tp in rejected:
            new_runs[tp] = _placed(new_runs.get(tp, []), at, rejected[tp])
        events += _events(tp, at, void.get(tp))
    recut = {
        tp: [*at.refusal.remaining_runs, *new_runs.pop(tp)]
        for tp, at in found.items()
        if isinstance(at, Jump) and at.refusal.remaining_runs is not None
    }
    return Found(
        found,
        {tp: at.position for tp, at in found.items() if isinstance(at, Resume)},
        new_runs,
        recut,
        {tp: text for tp, text in void.items() if tp in found},
        frozenset(
            tp
            for tp, at in found.items()
            if isinstance(at, Jump) and at.refusal.cause == "source-recreated"
        ),
        frozenset(tp for tp, at in found.items() if _is_next(at)),
        tuple(events),
    )


def _new_runs(verdict: Verdict, known: Position | None) -> list[OffsetRun]:
    """Returns what the offset map is to state of a start that it does not give.

    *known* is the last position of the map, None if it begins here.
    """
    match verdict:
        case StartFresh(position):
            return [anchor(position)]
        case Counted(run, parts):
            return list(parts) or [run]
        case Realigned(runs, _, _):
            return runs
        case Match():
            return verdict.new_runs(known)
        case Jump() | MovedPosition():
            return verdict.new_runs()
    return []


def _placed(runs: list[OffsetRun], found: Verdict, log_end: int) -> list[OffsetRun]:
    """Marks *runs*, of the start *found*, as placed: their next record was rejected.

    Copies go on at the target's *log_end*. In a shared topic it is behind those of the records that
    were on their way then, which nobody counts there.
    """
    if runs and is_placed(runs[-1]):
        return runs
    start = runs[-1].end if runs or not isinstance(found, Resume) else found.position
    return [*runs, anchor(Position(start.upstream, log_end))]


def _is_next(found: Verdict) -> bool:
    """Returns whether nothing suggests that the target rejected the record at the start *found*.

    Others may have written what a remote topic holds when a flow first sees it.
    """
    if isinstance(found, Match):
        return not found.has_gap
    return isinstance(found, StartFresh)


def _events(tp: TopicPartition, found: Verdict, void: str | None) -> list[NewEvent]:
    columns = tp._asdict()
    if isinstance(found, Match):
        return found.events(tp)
    if isinstance(found, Realigned):
        return [found.event]
    if isinstance(found, MovedPosition):
        return [found.event(tp)]
    if isinstance(found, Jump):
        at = found.position.upstream
        first, end = found.lost or found.repeated or (at, at)
        columns |= {"offset_from": first, "offset_until": end}
        gives_up = found.lost or found.repeated or found.deleted or found.unknown
        cause = found.refusal.cause if gives_up else None
        return [NewEvent("jumped", found.text(tp), found.decided_by, columns, cause)]
    if isinstance(found, StartFresh) and void:
        text = f"{void}; {tp} is copied again, {_from(found.position)}"
        columns |= {"offset_from": found.position.upstream}
        return [NewEvent("started-over", text, "restart", columns)]
    return []


def _from(start: Position) -> str:
    if not start.downstream:
        return f"to an empty partition from offset {start.upstream} on"
    return (
        f"from offset {start.upstream} on, behind what the new topic holds already: its offsets up "
        f"to {start.downstream - 1}, which this flow may have written before it saw that the topic "
        "is a new one. If so, those records are repeated"
    )
