"""Chooses what the next generation replicates: the prepared topics without those set aside.

Topics and partitions that cannot be replicated for now are set aside: the others go on. Each is
recorded once for each reason, and tried again at a growing interval.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, KeysView, Mapping
from typing import Final

from replication.backoff import Backoff
from replication.errors import ClusterError, FlowError, GuardError, ReplicationError
from replication.figures.observation import DOCTOR
from replication.flows.context import FlowContext, Identity
from replication.flows.flow_metrics import TopicOrPartition, topic_of
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.resume import Acceptances
from replication.kafka.api import join_names
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import newest_codecs
from replication.log_events import Event
from replication.mm2.filters import excluding
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.guard import Refusal
from replication.offsets.moved import skip_command
from replication.positions.expire import BadRecord, rejected_records
from replication.positions.find import Found, find_problems, topics_of
from replication.positions.measure import give_up_in_flight, gone_text
from replication.positions.originals import unsafe_keys
from replication.spark.acknowledged import NOT_REPORTED, is_reported
from replication.spark.kafka_options import named
from replication.state.offset_table import FIRST_TOPICS, first_start_of, rows_of
from replication.state.requests import RetryRequest
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import RetryTimes, TopicPlan, codecs_of_copies
from replication.upkeep.prepare import Reserve, carry_out, look


class RefusedTopicError(GuardError):
    """Copying a topic would lose or repeat records, until somebody accepts that by *command*."""

    def __init__(self, text: str, command: str) -> None:
        self.command = command
        super().__init__(f"{text}\n    To go on: {command}")


class RejectedTopicError(ClusterError):
    """A cluster rejects a topic; *command* prints the lines that mend it, such as an ACL's."""

    command = DOCTOR


ADVICE = (
    "Accept the loss or the repetition with the command above, or for all such cases with a policy "
    "replication.guard.*. Delete the remote topic to replicate it again from the source's earliest "
    "offset, or exclude the topic with topics.exclude"
)


class SetAside:
    """What of one flow is set aside, and why."""

    def __init__(self, context: FlowContext, pauses: Backoff) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self.log = context.log
        self._times = RetryTimes[TopicOrPartition](pauses)
        self._metrics = context.metrics
        by_drain = ", by the next drain at the latest" if context.config.mode == "drain" else ""
        self._again = "{} is tried again" + by_drain
        self.errors: dict[TopicOrPartition, ReplicationError] = {}

    def add(self, errors: Mapping[TopicOrPartition, ReplicationError]) -> None:
        """Sets parts aside, or sets the next time for those that failed again."""
        events = []
        for part, error in errors.items():
            pause = self._times.failed(part, time.monotonic())
            is_news = str(self.errors.get(part)) != str(error)
            self.errors[part] = error
            if is_news:
                text = f"{error}\nThis holds up nothing else. {self._again.format(part)}"
                events.append(NewEvent("set-aside", text, "retry", _columns(part)))
            else:
                self.log.warning(
                    "still_set_aside", **_columns(part),
                    retry_seconds=round(pause), text=error,
                )  # fmt: skip
        self._metrics.set_aside(errors)
        self._tables.record_events(self._flow, events)

    def waiting(self) -> frozenset[TopicOrPartition]:
        """Returns what is not tried now."""
        return self._times.waiting(time.monotonic())

    def is_due(self) -> bool:
        """Returns whether anything is to be tried now."""
        return self._times.is_due(time.monotonic())

    def retry_now(self, parts: Collection[TopicOrPartition]) -> None:
        """Makes those of *parts* due that are set aside."""
        for part in self.errors.keys() & set(parts):
            self._times.retry_now(part, time.monotonic())

    def postpone(self) -> None:
        """Sets the next time of what is due."""
        now = time.monotonic()
        for part in self.errors.keys() - self._times.waiting(now):
            self._times.failed(part, now)

    def rejoin(self, replicated: Collection[TopicOrPartition]) -> None:
        """Marks everything in *replicated* as no longer set aside."""
        parts = [part for part in self.errors if part in replicated]
        self.forget(parts)
        text = "{}, which was set aside, is replicated"
        events = (
            NewEvent("rejoined", text.format(part), "retry", _columns(part)) for part in parts
        )
        self._tables.record_events(self._flow, events)

    def forget(self, parts: Collection[TopicOrPartition]) -> None:
        """Forgets *parts* that no longer exist or are excluded."""
        for part in parts:
            self._times.succeeded(part)
            del self.errors[part]
        self._metrics.take_back(parts)


def _columns(part: TopicOrPartition) -> dict[str, str | int]:
    if isinstance(part, TopicPartition):
        return {"topic": part.topic, "partition": part.partition}
    return {"topic": part}


def joined(flow: Flow, errors: Mapping[TopicOrPartition, ReplicationError]) -> ReplicationError:
    """Joins *errors* into one. Its exit code is that of a decision, if one needs it."""
    lines = "".join(f"\n  - {part}: {error}" for part, error in sorted(errors.items(), key=str))
    text = f"flow {flow} does not replicate these topics:{lines}"
    if any(isinstance(error, RefusedTopicError) for error in errors.values()):
        return GuardError(f"{text}\nContinuing would lose or repeat records. {ADVICE}")
    if any(isinstance(error, GuardError) for error in errors.values()):
        return GuardError(text)
    if any(isinstance(error, FlowError) for error in errors.values()):
        return FlowError(text)
    return ClusterError(text)


class FirstTopics:
    """The topics before a look at them: one that is born during the look is a later one.

    Does nothing but at the first start of a flow with ``latest``.
    """

    def __init__(self, context: FlowContext, stored: MapWriter) -> None:
        self._context = context
        self._stored = stored
        self._is_due = context.config.auto_offset_reset == "latest" and stored.first is None
        self._names = context.source.topic_names() if self._is_due else set[str]()

    def record(self, plan: TopicPlan) -> None:
        """Records them, and where the partitions that *plan* selects end."""
        if not self._is_due:
            return
        context = self._context
        ends = context.source.log_ends(plan.partitions, context.config.isolation)
        rows = rows_of(
            context.config.flow,
            self._names,
            plan.source_ids,
            {tp: ends.get(tp) for tp in (*plan.partitions, *plan.leaderless)},
        )
        context.tables.append(FIRST_TOPICS, rows)
        self._stored.first = first_start_of(rows, has_started=True)


PRODUCERS_DEFAULT = "none"
"""Kafka's ``compression.type``."""


class SourceCodecs:
    """The codecs of a flow's copies, where they are to be those of the source's batches.

    They are looked for whenever topics are, and remembered for looks that fail. A topic whose codec
    has changed makes a new plan, hence a new generation.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._known: dict[str, str] = {}

    def added_to(self, plan: TopicPlan) -> TopicPlan:
        """Returns *plan* with the codecs of its topics, if the flow keeps them."""
        context, config = self._context, self._context.config
        if config.compression == "producer" or not plan.topics:
            return plan
        newest = {}
        try:
            consumer = named(config.source.consumer, config.flow)
            newest = newest_codecs(context.jvm, consumer, plan.topics)
        except ClusterError as error:
            context.log.warning("codecs_unknown", text=error)
        otherwise = config.target.producer.get("compression.type", PRODUCERS_DEFAULT)
        found = codecs_of_copies(plan.topics, newest, self._known, otherwise)
        for topic, codec in found.items():
            if self._known.get(topic) != codec:
                context.log.info("codec_found", topic=topic, codec=codec)
        self._known |= found
        return plan.with_codecs(found)


class SelectionReport:
    """Says once which items of a flow's lists have no effect, and which topics look like copies."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self._logged: set[str] = set()
        self._is_empty = False

    def report(self, plan: TopicPlan) -> None:
        """Logs each item that selects nothing, once; records an event if none selects anything."""
        flow = self._flow
        for text in plan.warnings:
            self._log_once("topics_not_found", text)
        self._log_once("cluster_ids_equal", plan.shared_id)
        by_reason = defaultdict(list)
        for topic, reason in plan.left_out.items():
            if topic not in self._logged:
                self._logged.add(topic)
                by_reason[reason].append(topic)
        for reason, topics in by_reason.items():
            text = f"not copied: {join_names(topics)}: {reason}"
            self._context.log.warning("topics_left_out", text=text)
        if plan.is_empty and not self._is_empty:
            text = f"no topic that {flow.source} shows matches the list topics"
            if plan.left_out:
                text += f", except those that look like copies: {join_names(plan.left_out)}"
            self._context.tables.record_events(flow, [NewEvent("no-topics", text, "retry")])
        self._is_empty = plan.is_empty

    def log_none(self) -> None:
        """Logs that the flow has nothing to copy."""
        text = f"{self._flow.source} shows no topic that this flow copies"
        self._context.log.warning("no_topics", text=text)

    def _log_once(self, event: Event, text: str) -> None:
        if text and text not in self._logged:
            self._logged.add(text)
            self._context.log.warning(event, text=text)

    def error(self) -> FlowError | None:
        """Returns the error of a drain that has found none of the topics that its list names."""
        if not self._is_empty or self._context.config.drain_empty_allowed:
            return None
        flow = self._flow
        return FlowError(
            f"{flow}: no topic that {flow.source} shows matches the list topics, so none was "
            "copied; correct the list, or write replication.drain.empty.allowed: true"
        )


FIRST_RETRY_SECONDS = 60
"""The pause before a topic is tried again, unless topics are refreshed more often."""

LONGEST_PAUSE_SECONDS = 3600

LEADER_RETRY_SECONDS = 5
LONGEST_LEADER_PAUSE_SECONDS = 60


GONE_SECONDS = 86_400
"""How long a topic that the source does not have any more is shown."""

UNREPORTED = (
    "replication.aggregate.topics names its remote topic, and its offset map would be wrong: "
    f"{NOT_REPORTED}"
)

UNTRANSLATED = (
    f"replication.schemas is translate, and only executors that report get the ids: {NOT_REPORTED}"
)


Reasons = dict[TopicOrPartition, ReplicationError]


class TopicChoice:
    """The topics that one flow replicates, from generation to generation."""

    def __init__(self, context: FlowContext, stored: MapWriter, reserve: Reserve) -> None:
        config = context.config
        self._context = context
        self._flow = config.flow
        self._stored = stored
        self._reserve = reserve
        self._identity = Identity(context)
        self._codecs = SourceCodecs(context)
        self._seen = set[str]()  # requests for which parts are due already
        self._unmatched: dict[TopicPartition, int] = {}
        self._known = set(stored.topics.last)  # deleted while no process ran, they are gone
        self._refused: dict[TopicOrPartition, ReplicationError] = {}  # what has ended the flow
        first = min(FIRST_RETRY_SECONDS, config.refresh_topics_interval_seconds)
        pauses = Backoff(first, LONGEST_PAUSE_SECONDS)
        self._topics = SetAside(context, pauses)
        pauses = Backoff(min(first, LEADER_RETRY_SECONDS), LONGEST_LEADER_PAUSE_SECONDS)
        self._leaderless = SetAside(context, pauses)
        self._gone: dict[str, float] = {}  # since when the source does not have topics
        self._looks = RetryTimes[str](Backoff(1, config.refresh_topics_interval_seconds))
        self._unled = frozenset[TopicPartition]()  # as the outages said it for the last plan
        self._unled_at = 0.0

    def plan(self, running: TopicPlan | None = None) -> TopicPlan:
        """Prepares the target, and tries topics that were set aside and are due again.

        Changes nothing if a remote topic of the plan that is *running* was deleted: what its
        producers have in flight would be the first that a new topic gets.
        """
        began = time.monotonic()
        self._look_for_requests()
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
        self._look_for_requests()
        has_other_leaders = (
            self._context.outages.leaderless != self._unled and time.monotonic() >= self._unled_at
        )
        times = (self._topics, self._leaderless)
        is_due = any(each.is_due() for each in times) or self._looks.is_due(time.monotonic())
        return is_due or has_other_leaders

    def try_now(self, topics: Collection[str]) -> None:
        """Makes those of *topics* due that are set aside."""
        self._topics.retry_now(topics)

    def postpone(self) -> None:
        """Records that the retries that were due were not attempted."""
        self._topics.postpone()
        self._leaderless.postpone()
        self._look_for(self._gone.keys())
        self._unled_at = time.monotonic() + LEADER_RETRY_SECONDS

    def narrow(self, plan: TopicPlan, located: Found) -> TopicPlan:
        """Narrows *plan* to the topics that have positions; sets those aside that are refused."""
        plan, problems = plan.without(located.gone), located.refused
        if not problems:
            return plan
        self._unmatched |= located.unmatched
        # the position of the map may be another topic's
        self._context.metrics.place({tp: each.replicated for tp, each in problems.items()})
        errors = refusal_errors(self._flow, problems)
        left = plan.without(topics_of(problems))
        self._reserve(left)
        is_all, policy = not left.topics and not plan.paused, self._context.config.guard.policy
        if is_all or any(policy(each.cause, tp.topic) == "stop" for tp, each in problems.items()):
            events = (
                NewEvent("refused", refusal.text, "fail", tp._asdict())
                for tp, refusal in problems.items()
            )
            self._context.tables.record_events(self._flow, events)
            self._refused = errors
            raise joined(self._flow, {**self._topics.errors, **errors})
        self._topics.add(errors)
        self._context.metrics.find_again(topics_of(problems))
        return left

    def put_aside(self, topics: Mapping[str, str], plan: TopicPlan | None) -> bool:
        """Sets aside what a cluster rejected, by upstream or remote names; False if nothing."""
        known = plan.topics if plan else {}
        errors: dict[TopicOrPartition, ReplicationError] = {
            name: RejectedTopicError(topics.get(name) or topics[copy])
            for name, copy in known.items()
            if name in topics or copy in topics
        }
        self._topics.add(errors)
        return bool(errors)

    def denied(self, plan: TopicPlan) -> dict[str, str]:
        """Returns why users of the clusters may not copy topics of *plan*, by upstream topic."""
        on_source = self._context.source.denied("READ", plan.topics)
        on_target = self._context.target.denied("WRITE", plan.topics.values())
        return {
            name: on_source.get(name) or on_target[copy]
            for name, copy in plan.topics.items()
            if name in on_source or copy in on_target
        }

    def put_aside_topics_of(
        self, reasons: Mapping[TopicPartition, BadRecord], plan: TopicPlan, *, is_beside: bool
    ) -> bool:
        """Sets topics aside whose next record cannot be copied; False if none other is left.

        Others than those of *plan* are copied if *is_beside*.
        """
        if not is_beside and not plan.without(topics_of(reasons)).topics:
            return False
        self._topics.add(bad_record_errors(self._flow, reasons))
        return True

    def rejoin(self, plan: TopicPlan) -> None:
        """Says that the topics of *plan* are replicated from now on."""
        self._known |= plan.topics.keys()
        self._context.metrics.find_again(plan.topics)
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
        gone = plan.gone & without  # which nobody tries for up to an hour
        topics.forget(gone)
        without -= gone
        context.metrics.want(plan, {*without, *plan.rejected})
        first.record(plan)
        if running is not None and plan.replaces(running.remote_ids):
            return plan
        if running is None and plan.replaces(self._stored.remote_ids):
            give_up_in_flight(self._context.started_spark, self._flow)
        plan = carry_out(plan, config, context.target, self._reserve)
        seen = plan.topics.keys() | plan.rejected.keys() | plan.left_to_others.keys()
        topics.forget(retried - seen)
        self._known = known & (seen | without)
        self._lose(known - seen - without - {tp.topic for tp in plan.paused})
        context.metrics.find_again(context.metrics.gone.keys() - self._gone.keys() - seen)
        for find in self._FILTERS:
            reasons = find(self, plan)
            topics.add(reasons)
            plan = plan.without({str(name) for name in reasons})
        plan = self._codecs.added_to(plan)
        self._leaderless.forget(
            self._leaderless.errors.keys() - {*plan.partitions, *plan.leaderless}
        )
        text = "no broker that answers leads this partition, or that of its remote topic"
        self._leaderless.add({tp: ClusterError(text) for tp in plan.leaderless})
        self._reserve(plan)  # what was set aside may be another flow's
        self._unled = unled
        return plan

    def _lose(self, missing: Collection[str]) -> None:
        """Looks again soon for those of *missing* that the flow would copy, and shows them.

        Whoever has deleted a topic may have done so on purpose: it is shown for a day.
        """
        now, source, before = time.monotonic(), self._flow.source, self._gone
        since = {name: before.get(name, now) for name in missing}
        recent = [name for name, at in since.items() if now - at < GONE_SECONDS]
        self._gone = {name: since[name] for name in remote_topics(self._context.config, recent)}
        for name in before.keys() - self._gone.keys():
            self._looks.succeeded(name)
        self._known |= self._gone.keys()  # a source without an ACL does not list its topic either
        self._look_for(self._gone.keys())
        command = f"python -m replication topics FILE --flow '{self._flow}'"
        text = "create it again, or leave it out with the command"
        self._context.metrics.lose(
            {
                name: (f"{gone_text(name, source)}: {text}", f"{command} {excluding(name)}")
                for name in self._gone
            }
        )

    def _look_for(self, gone: KeysView[str]) -> None:
        now = time.monotonic()
        for name in gone - self._looks.waiting(now):
            self._looks.failed(name, now)

    def _rejected_by_a_cluster(self, plan: TopicPlan) -> Reasons:
        denied = self.denied(plan.without(plan.topics.keys() - self._topics.errors.keys()))
        reasons = {**plan.rejected, **denied}
        return {topic: RejectedTopicError(text) for topic, text in reasons.items()}

    def _written_by_another_flow(self, plan: TopicPlan) -> Reasons:
        return {topic: GuardError(text) for topic, text in plan.left_to_others.items()}

    def _unreported(self, plan: TopicPlan) -> Reasons:
        config = self._context.config
        translated = config.with_schema_ids(plan.topics) if config.translates else {}
        if not (plan.shared or translated) or is_reported(self._context.spark):
            return {}
        shared = [name for name, remote in plan.topics.items() if remote in plan.shared]
        reasons: Reasons = {name: GuardError(UNREPORTED) for name in shared}
        return reasons | {name: GuardError(UNTRANSLATED) for name in translated}

    def _compacted_with_changed_keys(self, plan: TopicPlan) -> Reasons:
        unsafe = unsafe_keys(plan, self._context.source, self._context.target)
        return {topic: GuardError(text) for topic, text in unsafe.items()}

    def _still_refused(self, plan: TopicPlan) -> Reasons:
        errors = self._topics.errors
        retried = plan.without(plan.topics.keys() - errors.keys())
        if not retried.topics:
            return {}
        try:
            acceptances = Acceptances(self._context)
            problems = find_problems(
                self._context, retried, self._stored, self._unmatched, acceptances.accepted
            )
            acceptances.settle(retried, problems, are_positions_used=False)
        except CallError as error:
            unread: Reasons = {
                name: ClusterError(text)
                for name, copy in retried.topics.items()
                if (text := error.rejected.get(name) or error.rejected.get(copy))
            }
            if not unread:
                raise
            # of the others it is not known: they wait for their next turn
            return {name: errors[name] for name in retried.topics.keys() - unread} | unread
        return refusal_errors(self._flow, problems)

    def _next_record_fails(self, plan: TopicPlan) -> Reasons:
        if self._context.config.letters.kind != "none":
            return {}  # it is tried again, and gets a letter
        errors = self._topics.errors
        others = {name for name in plan.topics if not isinstance(errors.get(name), FlowError)}
        retried = plan.without(others)
        if not retried.topics:
            return {}
        positions = {tp: anchor.position for tp, anchor in self._stored.anchors.items()}
        for each in self._context.move_requests.find():  # it goes on there, or fails again
            at, to = positions.get(each.partition), each.moving.to
            if at is not None and at == each.moving.seen and isinstance(to, int):
                positions[each.partition] = Position(to, at.downstream)
        return bad_record_errors(self._flow, rejected_records(self._context, retried, positions))

    def _waits_for_a_schema(self, plan: TopicPlan) -> Reasons:
        reasons = self._context.refused_schemas.try_again(plan.topics)
        return {topic: ClusterError(text) for topic, text in reasons.items()}

    # Why topics cannot be replicated now, in this order: a filter sees what those before it left.
    _FILTERS: Final[tuple[Callable[["TopicChoice", TopicPlan], Reasons], ...]] = (
        _rejected_by_a_cluster,  # asks for ACLs only of topics that failed before
        _written_by_another_flow,
        _unreported,  # shared topics and translated ids need executors that report
        _compacted_with_changed_keys,
        _still_refused,  # reads offsets and ids of topics that failed before
        _next_record_fails,  # evaluates a record of each topic that failed so before
        _waits_for_a_schema,
    )

    def _look_for_requests(self) -> None:
        """Makes what is set aside due where an operator has asked for something since.

        Who has asked to try again is answered once every part has failed again, or rejoined.
        """
        context, seen = self._context, self._seen
        aside = {*self._topics.errors, *self._leaderless.errors}
        self._seen = set()
        if aside and context.requests.is_asked("accept", self._flow):
            accepted = context.accept_requests.find()
            self._seen |= {each.request.path for each in accepted}
            self._retry_now({each.topic for each in accepted if each.request.path not in seen})
        if aside and context.requests.is_asked("move", self._flow):
            moves = context.move_requests.find()
            self._seen |= {each.request.path for each in moves}
            new = {each.partition for each in moves if each.request.path not in seen}
            self._retry_now({part for tp in new for part in (tp, tp.topic)})
        if context.requests.is_asked("retry", self._flow):
            requests = context.retry_requests
            asked = requests.find()
            context.tables.record_events(self._flow, requests.events(asked))
            self._seen |= {each.request.path for each in asked}
            for each in asked:
                if each.request.path not in seen:
                    self._retry_now(_parts_of(each, aside))
            tried = self._topics.waiting() | self._leaderless.waiting()
            requests.remove([each for each in asked if _parts_of(each, aside) <= tried])

    def _retry_now(self, parts: Collection[TopicOrPartition]) -> None:
        self._topics.retry_now(parts)
        self._leaderless.retry_now(parts)


def _parts_of(retry: RetryRequest, aside: Collection[TopicOrPartition]) -> set[TopicOrPartition]:
    """Returns what *retry* asks for of what is set aside."""
    return {part for part in aside if topic_of(part) in retry.topics or not retry.topics}


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
        errors[topic].partitions = error.partitions
    return errors


def bad_record_errors(
    flow: Flow, bad: Mapping[TopicPartition, BadRecord]
) -> dict[TopicOrPartition, ReplicationError]:
    """Returns one error for each topic of *bad*, which names the command that skips the first."""
    errors = _by_topic({tp: each.text for tp, each in bad.items()}, FlowError)
    for tp, (_, offset) in sorted(bad.items(), reverse=True):
        if offset is not None:
            errors[tp.topic].command = skip_command(flow, tp, offset)
    return errors


def _by_topic(
    problems: Mapping[TopicPartition, str], kind: type[ReplicationError]
) -> dict[TopicOrPartition, ReplicationError]:
    lines: dict[str, list[str]] = {}
    for tp, text in sorted(problems.items()):
        lines.setdefault(tp.topic, []).append(text if str(tp) in text else f"{tp}: {text}")
    errors: dict[TopicOrPartition, ReplicationError] = {}
    for topic, texts in lines.items():
        errors[topic] = kind("\n    ".join(texts))
        errors[topic].partitions = len(texts)
    return errors
