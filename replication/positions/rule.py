"""The last step: the policy of the flow, or an operator's acceptance, decides on what is refused.

Nothing before it knows a policy, so that whoever asks what is refused stops before it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from replication.config.tree import FlowConfig
from replication.model import TopicPartition
from replication.offsets.guard import Accepted, Jump, Refusal, rule
from replication.positions.verdicts import Realigned
from replication.topics.topic_plan import TopicPlan

Decided = TypeVar("Decided")
NOTHING_ACCEPTED: Final[Mapping[TopicPartition, Accepted]] = MappingProxyType({})


def rule_all(
    config: FlowConfig,
    plan: TopicPlan,
    decided: Mapping[TopicPartition, Decided],
    accepted: Mapping[TopicPartition, Accepted] = NOTHING_ACCEPTED,
) -> dict[TopicPartition, Decided | Jump | Refusal]:
    """Makes of each refusal in *decided* what the policy or an acceptance says; the rest stays.

    A skip over records of another producer is what realigning does, so that is left as it is.
    """
    ruled: dict[TopicPartition, Decided | Jump | Refusal] = dict(decided)
    for tp, at in decided.items():
        refusal = at.foreign if isinstance(at, Realigned) else at
        if isinstance(refusal, Refusal):
            policy = config.guard.policy(refusal.cause, tp.topic)
            verdict = rule(refusal, policy, accepted.get(tp), plan.source_ids[tp.topic])
            is_skipped = isinstance(verdict, Jump) and verdict.decided_by == "skip"
            if not (is_skipped and isinstance(at, Realigned)):
                ruled[tp] = verdict
    return ruled
