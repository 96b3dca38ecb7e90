"""Chooses the topics of the next generation: the prepared ones without those that are set aside."""

from collections.abc import Collection, Mapping

from replication.errors import ClusterError, GuardError, ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.decide import find_problems, topics_of
from replication.flows.replicate.prepare import prepare_topics
from replication.flows.replicate.set_aside import SetAside, joined
from replication.model import TopicPartition
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan


class TopicChoice:
    """The topics that one flow replicates, from generation to generation.

    Args:
        context: The flow.
        anchors: The last known position of each partition; the replication loop updates it.
    """

    def __init__(self, context: FlowContext, anchors: Mapping[TopicPartition, Anchor]) -> None:
        self._context, self._anchors = context, anchors
        self._set_aside = SetAside(context.tables, context.config)

    def plan(self) -> TopicPlan:
        """Prepares the target, and tries topics that were set aside and are due again.

        Raises:
            GuardError: No topic is left that can be replicated without losing or repeating
                records, or the flow as a whole must not run.
            ClusterError: A cluster does not answer, or rejects all topics.
        """
        plan = self._try_all_but(self._set_aside.waiting())
        if not plan.partitions and self._set_aside.waiting():
            plan = self._try_all_but(())
        error = self._set_aside.error()
        if error is not None and not plan.partitions:
            raise error
        return plan

    def has_retry(self) -> bool:
        """Whether a topic that was set aside is to be tried now."""
        return self._set_aside.is_due()

    def refuse(self, plan: TopicPlan, problems: Mapping[TopicPartition, str]) -> TopicPlan:
        """Sets topics of *plan* aside whose partitions have *problems*; returns the others.

        Raises:
            GuardError: None is left; each problem is an event.
        """
        if not problems:
            return plan
        errors = _guard_errors(problems)
        left = plan.without(errors)
        if not left.partitions:
            config = self._context.config
            for tp, text in problems.items():
                self._context.tables.record_event(
                    config.flow, "refused", text, topic=tp.topic, partition=tp.partition,
                    policy="fail",
                )  # fmt: skip
            raise joined(config.flow, {**self._set_aside.errors, **errors})
        self._set_aside.add(errors)
        return left

    def reject(self, topics: Mapping[str, str], plan: TopicPlan | None) -> bool:
        """Sets aside what a cluster rejected, by upstream or remote names; False if nothing."""
        known = plan.topics if plan else {}
        errors: dict[str, ReplicationError] = {
            name: ClusterError(topics.get(name) or topics[copy])
            for name, copy in known.items()
            if name in topics or copy in topics
        }
        self._set_aside.add(errors)
        return bool(errors)

    def accept(self, plan: TopicPlan) -> None:
        """Says that the topics of *plan* are replicated from now on."""
        self._set_aside.accept(plan.topics)

    def error(self) -> ReplicationError | None:
        """The error of all topics that are set aside; None if none is."""
        return self._set_aside.error()

    def _try_all_but(self, waiting: Collection[str]) -> TopicPlan:
        config, aside = self._context.config, self._set_aside
        retried = aside.errors.keys() - set(waiting)
        plan = prepare_topics(config, self._context.source, self._context.target, waiting)
        aside.add({topic: ClusterError(text) for topic, text in plan.rejected.items()})
        aside.forget(retried - plan.topics.keys() - plan.rejected.keys())
        refused = plan.without(plan.topics.keys() - aside.errors.keys())
        problems = find_problems(self._context, refused, self._anchors) if refused.topics else {}
        aside.add(_guard_errors(problems))
        return plan.without(topics_of(problems))


def _guard_errors(problems: Mapping[TopicPartition, str]) -> dict[str, GuardError]:
    """One error for each topic that has *problems*."""
    lines: dict[str, list[str]] = {}
    for tp, text in sorted(problems.items()):
        lines.setdefault(tp.topic, []).append(f"{tp}: {text}")
    return {topic: GuardError("\n    ".join(texts)) for topic, texts in lines.items()}
