"""What an operator accepts once: a topic that the guard refuses goes on at a given offset."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replication.config.tree import FlowConfig
from replication.control.starts import StoredMap, find_starts
from replication.errors import NoAnswerError
from replication.kafka.cluster import Cluster
from replication.model import Position, TopicPartition
from replication.offsets.guard import Accepted, Jump, Refusal, Start, rule, unmatched
from replication.offsets.resume import CountAhead, Decision, MatchTail, Missing
from replication.positions.survey import NOTHING
from replication.state.accept_requests import AcceptRequest
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look

FOREIGN = "in case that another producer wrote the last records of its remote partition"
NOT_FOUND = "in case that none of the last records of its remote partition is found in it"


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
        """What a command prints as JSON."""
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
    start: Start,
) -> Acceptance:
    """What accepting *start* means for the partitions that the guard refuses.

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
    starts = find_starts(config, plan, clusters, replace(stored, accepted=NOTHING))
    source = clusters[0]
    earliest = source.earliest(plan.partitions)
    ends = source.log_ends(plan.partitions, config.isolation)
    refusals: dict[TopicPartition, Refusal] = {}
    for tp, decision in starts.decisions.items():
        if isinstance(decision, Refusal):
            refusals[tp] = decision
        elif isinstance(decision, Jump):
            refusals[tp] = decision.refusal
        elif isinstance(decision, MatchTail):
            offsets = earliest[tp], ends[tp]
            refusals[tp] = unmatched(f"{tp}, {NOT_FOUND}", decision.position, offsets, None)
        elif isinstance(decision, CountAhead) and _is_guarded(config, topic):
            offsets, fresh = (earliest[tp], ends[tp]), Position(0, decision.log_end)
            refusals[tp] = unmatched(f"{tp}, {FOREIGN}", fresh, offsets, decision.anchor)
    chosen = [tp for tp in refusals if number in {None, tp.partition}]
    if not chosen:
        what = topic if number is None else f"{topic}-{number}"
        raise NoAnswerError(
            f"{what}: there is nothing to accept, the flow goes on by itself as "
            "python -m replication plan shows"
        )
    ruled = {tp: rule(refusals[tp], "fail", Accepted(start, topic_id), topic_id) for tp in chosen}
    if wrong := [f"\n  - {tp}: {at.text}" for tp, at in ruled.items() if isinstance(at, Refusal)]:
        raise NoAnswerError("".join([f"--from {start} is impossible:", *wrong]))
    return Acceptance(
        AcceptRequest(topic, topic_id, tuple(tp.partition for tp in chosen), start),
        {tp: at for tp, at in ruled.items() if isinstance(at, Jump)},
        tuple(tp for tp, at in starts.decisions.items() if _stays(tp, at, chosen)),
    )


def _is_guarded(config: FlowConfig, topic: str) -> bool:
    return config.guard.policy("foreign-records", topic) in ("fail", "stop")


def _stays(tp: TopicPartition, decision: Decision | Jump, chosen: Sequence[TopicPartition]) -> bool:
    return tp not in chosen and isinstance(decision, Refusal | Missing)


def _plan_of(topic: str, plan: TopicPlan) -> TopicPlan:
    if topic in plan.topics:
        return plan.without(plan.topics.keys() - {topic})
    reason = plan.rejected.get(topic, "it is not one of the flow's topics: check the name")
    raise NoAnswerError(f"--topic {topic}: {reason}")
