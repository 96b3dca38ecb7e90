"""Chooses what the next generation replicates: the prepared topics without those set aside."""

import time
from collections.abc import Collection, Mapping

from replication.backoff import Backoff
from replication.errors import ClusterError, FlowError, GuardError, ReplicationError
from replication.flows.board import TopicOrPartition
from replication.flows.context import FlowContext
from replication.flows.identity import Identity
from replication.flows.replicate.acceptances import Acceptances
from replication.flows.replicate.first_topics import FirstTopics
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.set_aside import RefusedTopicError, SetAside, joined
from replication.flows.replicate.source_codecs import SourceCodecs
from replication.kafka.diagnosis import CallError
from replication.model import Flow, NewEvent, TopicPartition
from replication.offsets.guard import Refusal
from replication.positions.find import Found, find_problems, topics_of
from replication.positions.rejected_records import rejected_records
from replication.positions.settle import give_up_in_flight
from replication.positions.transform_trial import unsafe_keys
from replication.spark.acknowledged import NOT_REPORTED, is_reported
from replication.state.accept_requests import LOOK_SECONDS
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import Reserve, carry_out, look

FIRST_RETRY_SECONDS = 60
"""The pause before a topic is tried again, unless topics are refreshed more often."""

LONGEST_PAUSE_SECONDS = 3600

LEADER_RETRY_SECONDS = 5
LONGEST_LEADER_PAUSE_SECONDS = 60


UNREPORTED = (
    "replication.aggregate.topics names its remote topic, and its offset map would be wrong: "
    f"{NOT_REPORTED}"
)

UNTRANSLATED = (
    f"replication.schemas is translate, and only executors that report get the ids: {NOT_REPORTED}"
)


class TopicChoice:
    """The topics that one flow replicates, from generation to generation.

    Args:
        context: The flow.
        stored: The offset map.
        reserve: As in `Admitted`.
    """

    def __init__(self, context: FlowContext, stored: MapWriter, reserve: Reserve) -> None:
        config = context.config
        self._context = context
        self._flow = config.flow
        self._stored = stored
        self._reserve = reserve
        self._identity = Identity(context)
        self._codecs = SourceCodecs(context)
        self._accepted = set[str]()
        self._look_at = 0.0
        self._unmatched: dict[TopicPartition, int] = {}
        self._known: set[str] = set()
        self._refused: dict[TopicOrPartition, ReplicationError] = {}  # what has ended the flow
        first = min(FIRST_RETRY_SECONDS, config.refresh_topics_interval_seconds)
        pauses = Backoff(first, LONGEST_PAUSE_SECONDS)
        self._topics = SetAside(context, pauses)
        pauses = Backoff(min(first, LEADER_RETRY_SECONDS), LONGEST_LEADER_PAUSE_SECONDS)
        self._leaderless = SetAside(context, pauses)
        self._unled = frozenset[TopicPartition]()  # as the outages said it for the last plan
        self._unled_at = 0.0

    def plan(self, running: TopicPlan | None = None) -> TopicPlan:
        """Prepares the target, and tries topics that were set aside and are due again.

        Changes nothing if a remote topic of the plan that is *running* was deleted: what its
        producers have in flight would be the first that a new topic gets.

        Raises:
            GuardError: No topic is left that can be replicated without losing or repeating
                records, or the flow as a whole must not run.
            ClusterError: A cluster does not answer, rejects all topics, or leads no partition.
        """
        began = time.monotonic()
        waiting = self._topics.waiting()
        plan = self._try_all_but(waiting, running)
        if waiting and not plan.topics:
            plan = self._try_all_but((), running)
        if not plan.partitions and not plan.paused:
            if plan.leaderless:
                text = str(joined(self._flow, self._leaderless.errors))
                raise CallError(text, "LEADER_NOT_AVAILABLE")
            error = self.error()
            if error is not None:
                raise error
        seconds = round(time.monotonic() - began, 3)
        self._context.log.debug("topics_looked_at", seconds=seconds)
        return plan

    def has_retry(self) -> bool:
        """Returns whether anything that was set aside is to be tried now."""
        self._look_for_acceptances()
        has_other_leaders = (
            self._context.outages.leaderless != self._unled and time.monotonic() >= self._unled_at
        )
        return self._topics.is_due() or self._leaderless.is_due() or has_other_leaders

    def postpone(self) -> None:
        """Records that the retries that were due were not attempted."""
        self._topics.postpone()
        self._leaderless.postpone()
        self._unled_at = time.monotonic() + LEADER_RETRY_SECONDS

    def narrow(self, plan: TopicPlan, located: Found) -> TopicPlan:
        """Narrows *plan* to the topics that have positions; sets those aside that are refused.

        Raises:
            GuardError: None is left, or paused; each problem is an event.
        """
        plan, problems = plan.without(located.gone), located.refused
        if not problems:
            return plan
        self._unmatched |= located.unmatched
        errors = refusal_errors(self._flow, problems)
        left = plan.without(topics_of(problems))
        self._reserve(left)
        is_all = not left.topics and not plan.paused
        if is_all or self._must_stop(problems):
            events = (
                NewEvent("refused", refusal.text, "fail", tp._asdict())
                for tp, refusal in problems.items()
            )
            self._context.tables.record_events(self._flow, events)
            self._refused = errors
            raise joined(self._flow, {**self._topics.errors, **errors})
        self._topics.add(errors)
        return left

    def put_aside(self, topics: Mapping[str, str], plan: TopicPlan | None) -> bool:
        """Sets aside what a cluster rejected, by upstream or remote names; False if nothing."""
        known = plan.topics if plan else {}
        errors: dict[TopicOrPartition, ReplicationError] = {
            name: ClusterError(topics.get(name) or topics[copy])
            for name, copy in known.items()
            if name in topics or copy in topics
        }
        self._topics.add(errors)
        return bool(errors)

    def denied(self, plan: TopicPlan) -> dict[str, str]:
        """Returns why the users of the clusters may not copy topics of *plan*, by upstream topic.

        Raises:
            ClusterError: A cluster does not answer.
        """
        on_source = self._context.source.denied("READ", plan.topics)
        on_target = self._context.target.denied("WRITE", plan.topics.values())
        return {
            name: on_source.get(name) or on_target[copy]
            for name, copy in plan.topics.items()
            if name in on_source or copy in on_target
        }

    def put_aside_topics_of(self, reasons: Mapping[TopicPartition, str], plan: TopicPlan) -> bool:
        """Sets topics aside whose next record cannot be copied; False if none other is left."""
        if not plan.without(topics_of(reasons)).topics:
            return False
        self._topics.add(_by_topic(reasons, FlowError))
        return True

    def rejoin(self, plan: TopicPlan) -> None:
        """Says that the topics of *plan* are replicated from now on."""
        self._known |= plan.topics.keys()
        self._topics.rejoin(plan.topics)
        self._leaderless.rejoin(plan.partitions)

    @property
    def set_aside(self) -> dict[TopicOrPartition, ReplicationError]:
        """What is set aside now, and why."""
        return {**self._topics.errors, **self._leaderless.errors, **self._refused}

    def error(self) -> ReplicationError | None:
        """Returns one error for all that is set aside; None if nothing is."""
        errors = self.set_aside
        return joined(self._flow, errors) if errors else None

    def _try_all_but(
        self, waiting: Collection[TopicOrPartition], running: TopicPlan | None
    ) -> TopicPlan:
        context, topics = self._context, self._topics
        config = context.config
        if running is None:
            self._identity.check_addresses()
        self._identity.record()
        retried = topics.errors.keys() - set(waiting)
        without = {str(name) for name in waiting}
        known = self._known | {str(name) for name in topics.errors}
        first, unled = FirstTopics(context, self._stored), context.outages.leaderless
        plan = look(config, context.source, context.target, without, known)
        # a leader that is silent, and that its cluster still names, would keep all others waiting
        plan = plan.without_leaders(context.outages.silenced)
        plan = plan.without_paused(context.steering.paused)
        first.record(plan)
        if running is not None and plan.replaces(running.remote_ids):
            return plan
        if running is None and plan.replaces(self._stored.remote_ids):
            give_up_in_flight(self._context.started_spark, self._flow)
        plan = carry_out(plan, config, context.target, self._reserve)
        denied = self.denied(plan.without(plan.topics.keys() - topics.errors.keys()))
        plan = plan.without(denied.keys())
        rejected = {**plan.rejected, **denied}
        topics.add({topic: ClusterError(text) for topic, text in rejected.items()})
        topics.add({topic: GuardError(text) for topic, text in plan.left_to_others.items()})
        topics.forget(retried - plan.topics.keys() - rejected.keys() - plan.left_to_others.keys())
        seen = plan.topics.keys() | rejected.keys() | plan.left_to_others.keys() | without
        self._known = known & seen
        plan = self._without_unreported(plan)
        plan = self._without_unsafe_keys(plan)
        refused = plan.without(plan.topics.keys() - topics.errors.keys())
        unread: dict[str, str] = {}
        try:
            problems = self._problems(refused) if refused.topics else {}
        except CallError as error:
            unread = {
                name: text
                for name, copy in refused.topics.items()
                if (text := error.rejected.get(name) or error.rejected.get(copy))
            }
            if not unread:
                raise
            problems = {}
            # of the others it is not known: they wait for their next turn
            topics.add({name: topics.errors[name] for name in refused.topics.keys() - unread})
            plan = plan.without(refused.topics)
        topics.add({topic: ClusterError(text) for topic, text in unread.items()})
        topics.add(refusal_errors(self._flow, problems))
        plan = plan.without(topics_of(problems))
        plan = self._without_refused_schemas(self._without_rejected_records(plan))
        plan = self._codecs.added_to(plan)
        self._set_leaderless(plan)
        self._reserve(plan)  # what was set aside may be another flow's
        self._unled = unled
        return plan

    def _problems(self, plan: TopicPlan) -> dict[TopicPartition, Refusal]:
        """Returns why partitions of *plan* still cannot go on; all of them are set aside."""
        acceptances = Acceptances(self._context)
        problems = find_problems(
            self._context, plan, self._stored, self._unmatched, acceptances.accepted
        )
        acceptances.settle(plan, problems, are_positions_used=False)
        return problems

    def _without_unreported(self, plan: TopicPlan) -> TopicPlan:
        """Leaves out of *plan* what needs executors that report: shared topics, and schema ids."""
        config = self._context.config
        translated = config.with_schema_ids(plan.topics) if config.translates else {}
        if not (plan.shared or translated) or is_reported(self._context.spark):
            return plan
        names = {name for name, remote in plan.topics.items() if remote in plan.shared}
        self._topics.add({name: GuardError(UNREPORTED) for name in names})
        self._topics.add({name: GuardError(UNTRANSLATED) for name in translated})
        return plan.without(names | translated.keys())

    def _without_unsafe_keys(self, plan: TopicPlan) -> TopicPlan:
        """Leaves topics out of *plan* whose keys change, and whose copies are compacted by now."""
        unsafe = unsafe_keys(plan, self._context.source, self._context.target)
        self._topics.add({topic: GuardError(text) for topic, text in unsafe.items()})
        return plan.without(unsafe)

    def _without_rejected_records(self, plan: TopicPlan) -> TopicPlan:
        """Leaves the topics out of *plan* whose next record still cannot be copied."""
        if self._context.config.letters.kind != "none":
            return plan  # it is tried again, and gets a letter
        errors = self._topics.errors
        others = {name for name in plan.topics if not isinstance(errors.get(name), FlowError)}
        retried = plan.without(others)
        positions = {tp: anchor.position for tp, anchor in self._stored.anchors.items()}
        reasons = rejected_records(self._context, retried, positions) if retried.topics else {}
        self._topics.add(_by_topic(reasons, FlowError))
        return plan.without(topics_of(reasons))

    def _without_refused_schemas(self, plan: TopicPlan) -> TopicPlan:
        """Leaves the topics out of *plan* whose records still wait for a schema in vain."""
        reasons = self._context.refused_schemas.try_again(plan.topics)
        self._topics.add({topic: ClusterError(text) for topic, text in reasons.items()})
        return plan.without(reasons)

    def _must_stop(self, refused: Mapping[TopicPartition, Refusal]) -> bool:
        """Returns whether the policy for one of *refused* ends the flow."""
        policy = self._context.config.guard.policy
        return any(policy(refusal.cause, tp.topic) == "stop" for tp, refusal in refused.items())

    def _look_for_acceptances(self) -> None:
        """Makes topics due for which an operator has accepted something since the last look."""
        if not self._topics.errors or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        found = self._context.accept_requests.find()
        self._topics.retry_now(
            {each.topic for each in found if each.request.path not in self._accepted}
        )
        self._accepted = {each.request.path for each in found}

    def _set_leaderless(self, plan: TopicPlan) -> None:
        gone = self._leaderless.errors.keys() - {*plan.partitions, *plan.leaderless}
        self._leaderless.forget(gone)
        text = "no broker that answers leads this partition, or that of its remote topic"
        self._leaderless.add({tp: ClusterError(text) for tp in plan.leaderless})


def refusal_errors(
    flow: Flow, refused: Mapping[TopicPartition, Refusal]
) -> dict[TopicOrPartition, ReplicationError]:
    """Returns one error for each topic of *refused*, which names the command that accepts it."""
    errors = _by_topic({tp: refusal.text for tp, refusal in refused.items()}, GuardError)
    for topic, error in errors.items():
        parts = {tp.partition: at for tp, at in refused.items() if tp.topic == topic}
        options = "--from earliest"
        if len(parts) == 1:
            ((number, refusal),) = parts.items()
            options = f"--partition {number} --from {refusal.restart}"
        command = f"python -m replication accept FILE --flow '{flow}' --topic {topic} {options}"
        errors[topic] = RefusedTopicError(str(error), command)
    return errors


def _by_topic(
    problems: Mapping[TopicPartition, str], kind: type[ReplicationError]
) -> dict[TopicOrPartition, ReplicationError]:
    """Returns one error for each topic that has *problems*."""
    lines: dict[str, list[str]] = {}
    for tp, text in sorted(problems.items()):
        lines.setdefault(tp.topic, []).append(text if str(tp) in text else f"{tp}: {text}")
    return {topic: kind("\n    ".join(texts)) for topic, texts in lines.items()}
