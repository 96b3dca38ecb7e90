"""What an operator accepts once: a topic that the guard refuses goes on at a given offset."""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.control.starts import StoredMap, find_starts
from replication.errors import NoAnswerError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.offsets.guard import Accepted, Jump, Refusal, StartOffset, rule
from replication.offsets.resume import Decision, Missing
from replication.positions.doubts import in_doubt
from replication.positions.rule import rule_all
from replication.state.accept_requests import AcceptRequest
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What would be accepted.

    Args:
        request: For the process that runs the flow.
        jumps: What becomes of each partition.
        left: Partitions of the topic that stay refused, so that the topic stays set aside.
    """

    request: AcceptRequest
    jumps: dict[TopicPartition, Jump]
    left: tuple[TopicPartition, ...]

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "topic": self.request.topic,
            "partitions": [
                {
                    "partition": tp.partition,
                    "cause": jump.refusal.cause,
                    "from": jump.position.upstream,
                    "target_offset": jump.position.downstream,
                    "lost": jump.lost,
                    "repeated": jump.repeated,
                    "unknown": jump.unknown,
                }
                for tp, jump in self.jumps.items()
            ],
            "still_refused": [tp.partition for tp in self.left],
        }


def plan_acceptance(
    config: FlowConfig,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
    where: tuple[str, int | None],
    start: StartOffset,
) -> Acceptance:
    """Returns what accepting *start* means for the partitions that the guard refuses.

    Args:
        config: The flow.
        clusters: Source and target.
        stored: What the state directory says.
        where: The upstream topic and a partition; None for all that are refused.
        start: Where they go on.

    Raises:
        NoAnswerError: The guard refuses none of them, or the source does not have *start*.
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    topic, number = where
    plan = _plan_of(topic, look(config, *clusters))
    topic_id = plan.source_ids[topic]
    spans, starts = find_starts(config, plan, clusters, stored)
    refusals = {tp: at for tp, at in starts.decisions.items() if isinstance(at, Refusal)}
    doubts = in_doubt(spans, starts.decisions, {})
    for tp, at in rule_all(config, plan, doubts).items():
        # what the flow decides alone after each crash needs nobody
        if isinstance(at, Refusal) or doubts[tp].cause != "foreign-records":
            refusals[tp] = doubts[tp]
    chosen = [tp for tp in refusals if number in {None, tp.partition}]
    if not chosen:
        raise NoAnswerError(_why_nothing(topic, number, plan, starts.decisions))
    ruled = {tp: rule(refusals[tp], "fail", Accepted(start, topic_id), topic_id) for tp in chosen}
    if wrong := [f"\n  - {tp}: {at.text}" for tp, at in ruled.items() if isinstance(at, Refusal)]:
        raise NoAnswerError("".join([f"--from {start} is impossible:", *wrong]))
    return Acceptance(
        AcceptRequest(topic, topic_id, tuple(tp.partition for tp in chosen), start),
        {tp: at for tp, at in ruled.items() if isinstance(at, Jump)},
        tuple(
            tp
            for tp, at in rule_all(config, plan, starts.decisions).items()
            if tp not in chosen and isinstance(at, Refusal | Missing)
        ),
    )


def _why_nothing(
    topic: str,
    number: int | None,
    plan: TopicPlan,
    decisions: Mapping[TopicPartition, Decision],
) -> str:
    """Returns why there is nothing to accept for a partition, or for all of *topic*."""
    what = topic if number is None else f"{topic}-{number}"
    wanted = [tp for tp in (*decisions, *plan.leaderless) if number in {None, tp.partition}]
    if not wanted:
        return f"{what}: there is no such partition"
    missing = [at.text for tp in wanted if isinstance(at := decisions.get(tp), Missing)]
    leaderless = [f"no broker leads {tp} on one side" for tp in wanted if tp in plan.leaderless]
    if causes := [*missing, *leaderless]:
        return f"{what}: there is nothing to accept: {'; '.join(causes)}"
    return (
        f"{what}: there is nothing to accept, the flow goes on by itself as python -m replication "
        "plan shows"
    )


def _plan_of(topic: str, plan: TopicPlan) -> TopicPlan:
    if topic in plan.topics:
        return plan.without(plan.topics.keys() - {topic})
    reason = plan.rejected.get(topic, "it is not one of the flow's topics: check the name")
    raise NoAnswerError(f"--topic {topic}: {reason}")
