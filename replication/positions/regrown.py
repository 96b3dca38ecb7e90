"""Places partitions whose target was cut, and had got the flow's next records before it noticed.

What was cut off is copied again behind them, once, and they stay. So the places are found in the
logs alone, and a copy that is interrupted goes on where it was.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from replication.model import Position, TopicPartition
from replication.offsets.alignment import Regrown, align_regrown
from replication.offsets.guard import Jump, Refusal
from replication.positions.compare import Verdict
from replication.positions.sides import FlowSides
from replication.spark.fingerprints import copies, originals
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

Windows = dict[TopicPartition, tuple[int, int]]


def place_regrown(
    context: FlowSides, plan: TopicPlan, ruled: Mapping[TopicPartition, Verdict]
) -> tuple[dict[TopicPartition, Jump], Windows]:
    """Returns where such partitions go on, and what has to be copied again before they can.

    Args:
        context: The flow.
        plan: Its topics.
        ruled: What the policy, or an operator, has made of refusals.

    Raises:
        ClusterError: A cluster does not answer.
    """
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
        jumps[tp] = _placed(jump, found)
    return jumps, missing


def _regrown(
    context: FlowSides, tp: TopicPartition, remote: TopicPartition, refusal: Refusal
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


def _placed(jump: Jump, found: Regrown) -> Jump:
    """Returns *jump* behind what the target has got."""
    refusal, (first, until) = jump.refusal, found.present
    has = f"behind the cut the target has got the copies of source offsets {first} to {until - 1}"
    refusal = replace(
        refusal, matched=found.runs, skip=until, restart=until, present_from=first,
        text=f"{refusal.text}; {has}",
    )  # fmt: skip
    if jump.decided_by != "skip":
        lost = f"{refusal.replicated} to {first - 1}"
        text = f"{refusal.text}, and then once more those of {lost}, which were cut off"
        refusal = replace(refusal, replicated=until, text=text)
    return replace(jump, position=Position(until, refusal.log_end), refusal=refusal)
