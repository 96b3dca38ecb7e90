"""Does what lets the next generation of a flow succeed after an error, or gives up."""

import time
from collections.abc import Mapping
from threading import Event
from typing import Final, Protocol

from replication.backoff import Backoff
from replication.errors import ClusterError, ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.choose import TopicChoice, bad_record_errors
from replication.flows.replicate.dead_letters import DeadLetters
from replication.flows.replicate.failures import QueryError, UnexplainedError
from replication.kafka.diagnosis import CallError
from replication.model import Flow, Position, TopicPartition
from replication.positions.expire import BadRecord, rejected_records, transform_advice
from replication.positions.measure import UnsettledError
from replication.topics.topic_plan import TopicPlan

# Waits while a flow cannot go on, as long as it takes; says so where its clusters answer.

STANDSTILL_PAUSES: Final = Backoff(first_seconds=1.0, longest_seconds=4.0)
"""Between two attempts. Records flow within ten seconds of a cluster's first answer; a new
generation takes a few of them."""

SAID_AFTER_SECONDS: Final = 8.0
"""Elections and the like are over by then. A cluster that is silent is said by its watch."""

REMIND_SECONDS: Final = 60.0


class Standstill:
    """The attempts of one flow that fail for as long as something lasts, one after the other."""

    def __init__(self, context: FlowContext, stop: Event) -> None:
        self._context = context
        self._stop = stop
        self._attempts = 0
        self._since = 0.0
        self._said_at = 0.0

    def wait(self, error: ReplicationError) -> None:
        """Waits before the next attempt: longer each time, and not beyond an outage's end."""
        self.note(error)
        self._context.outages.pause(STANDSTILL_PAUSES.after(self._attempts), self._stop)

    def note(self, error: ReplicationError) -> None:
        """Records that the flow still stands: an event, then a line a minute."""
        now = time.monotonic()
        self._attempts += 1
        if self._attempts == 1:
            self._since = now
        flow, seconds = self._context.config.flow, round(now - self._since)
        if not self._context.outages.are_answering:
            return
        if self._said_at and now - self._said_at >= REMIND_SECONDS:
            self._said_at = now
            self._context.log.warning("still_waiting", seconds=seconds, text=error)
        elif not self._said_at and now - self._since >= SAID_AFTER_SECONDS:
            self._said_at = now
            text = f"{error}\nThe flow waits and tries again until it is stopped"
            self._context.tables.record_event(flow, "waiting", text, reaction="retry")

    def end(self) -> None:
        """Says that the flow goes on."""
        if self._said_at:
            seconds = round(time.monotonic() - self._since)
            text = f"the flow goes on after {seconds} s"
            self._context.tables.record_event(
                self._context.config.flow, "resumed", text, reaction="retry"
            )
        self._attempts = 0
        self._said_at = 0.0


FAILURES_IN_A_ROW: Final = 5
PAUSES: Final = Backoff(first_seconds=2.0, longest_seconds=30.0)


class FindPositions(Protocol):
    """Of a plan that no query replicates; others are copied meanwhile if *is_beside*."""

    def __call__(
        self, plan: TopicPlan, *, is_beside: bool
    ) -> Mapping[TopicPartition, Position]: ...


class Recovery:
    """The failures of one flow.

    *find_rejected* finds the positions of a plan at the target's log end, and copies up to the
    records that the target has rejected.
    """

    def __init__(
        self,
        context: FlowContext,
        choice: TopicChoice,
        standstill: Standstill,
        find_rejected: FindPositions,
        stop: Event,
        letters: DeadLetters,
    ) -> None:
        self._context = context
        self._letters = letters
        self._choice = choice
        self._standstill = standstill
        self._find_rejected = find_rejected
        self._stop = stop
        self._failures = 0

    def end(self) -> None:
        """Says that the flow makes progress: the next failure is a first one."""
        self._failures = 0

    def recover(
        self, error: ReplicationError, plan: TopicPlan | None, *, is_beside: bool = False
    ) -> None:
        """Sets topics aside, waits for a cluster, or waits before the next generation.

        No query replicates *plan*; others are copied meanwhile if *is_beside*.
        """
        refused = self._context.refused_schemas.of(plan.topics if plan else ())
        if not self._choice.put_aside(refused, plan):
            self._recover(error, plan, is_beside=is_beside)

    def _recover(self, error: ReplicationError, plan: TopicPlan | None, *, is_beside: bool) -> None:
        if isinstance(error, CallError):
            if self._choice.put_aside(error.rejected, plan):
                return
            # once the flow has run, even a rejected password may be restored
            may_return = error.is_temporary or (plan is not None and not error.is_denied)
            if self._context.config.mode != "drain" and may_return:
                self._failures = 0
                if not self._stop.is_set():
                    self._standstill.wait(error)
                return
        if isinstance(error, UnsettledError) and self._context.config.mode != "drain":
            if not self._stop.is_set():
                self._standstill.wait(error)  # as long as it takes a broker of several to come back
            return
        if isinstance(error, QueryError) and error.is_denied and plan is not None:
            self._set_denied_aside(error, plan)
        elif isinstance(error, QueryError) and error.is_of_record and plan is not None:
            self._set_aside(error, plan, is_beside=is_beside)
        elif not (
            isinstance(error, UnexplainedError)
            and plan is not None
            and self._set_throwing_aside(error, plan, is_beside=is_beside)
        ):
            self.pause(error, is_start=plan is None)

    def pause(self, error: ReplicationError, *, is_start: bool = False) -> None:
        """Waits before the next attempt, which a flow that is stopped meanwhile does not make."""
        self._failures += 1
        is_final = isinstance(error, QueryError) and error.is_final
        is_final = is_final or (isinstance(error, CallError) and error.is_denied)
        is_final = is_final or (is_start and isinstance(error, ClusterError))
        if is_final or self._failures >= FAILURES_IN_A_ROW:
            raise error
        if self._stop.is_set():
            if self._context.config.mode == "drain":
                raise error
            self._context.log.warning("failed_at_stop", text=error)
            return
        self._context.metrics.count_restart()
        pause = PAUSES.after(self._failures)
        flow = self._context.config.flow
        self._context.log.warning("restarting", pause_seconds=round(pause))
        self._context.tables.record_event(flow, "restarted", str(error), reaction="retry")
        self._stop.wait(pause)

    def _set_denied_aside(self, error: QueryError, plan: TopicPlan) -> None:
        denied: dict[str, str] = {}
        try:
            denied = self._choice.denied(plan)
        except ClusterError as second:
            self._context.log.warning("permissions_not_read", text=second)
        if self._choice.put_aside(denied, plan):
            return
        if error.is_final:
            step = "python -m replication acls FILE prints the ACLs that are needed"
            raise ClusterError(f"{error}; {step}") from error
        self.pause(error)

    def _set_throwing_aside(self, error: QueryError, plan: TopicPlan, *, is_beside: bool) -> bool:
        """Sets the topics aside on whose next record a transform throws; False if there are none.

        Spark says only that something threw, so what comes next on each partition is evaluated.
        """
        if not plan.transforms:
            return False
        changed = plan.without(plan.topics.keys() - plan.transforms.keys())
        try:
            positions = self._find_rejected(plan, is_beside=is_beside)
            reasons = rejected_records(self._context, changed, positions)
            left = self._letters.pass_by(error, plan, positions, reasons)
        except ReplicationError as second:
            self._context.log.warning("rejected_records_not_found", text=second)
            return False
        if reasons and not left:
            return True
        return bool(left) and self._choice.put_aside_topics_of(left, plan, is_beside=is_beside)

    def _set_aside(self, error: QueryError, plan: TopicPlan, *, is_beside: bool) -> None:
        """Sets the topics aside that hold a record which cannot be copied.

        Finding them writes the last batch's runs to the offset map and may fail in turn. That
        failure is only logged, because *error* is what the operator must act on.
        """
        reasons = _reasons(self._context.config.flow, error, plan)
        try:
            positions = self._find_rejected(plan, is_beside=is_beside)
            # what the client cannot read is named already; to read it again would fail
            readable = {tp: at for tp, at in positions.items() if tp not in error.unreadable}
            reasons |= rejected_records(self._context, plan, readable)
            left = self._letters.pass_by(error, plan, positions, reasons)
            if reasons and not left:
                return
            reasons = left
        except ReplicationError as second:
            self._context.log.warning("rejected_records_not_found", text=second)
        if not reasons or not self._choice.put_aside_topics_of(reasons, plan, is_beside=is_beside):
            lines = [f"\n  - {text}" for text, _ in reasons.values()]
            errors = bad_record_errors(self._context.config.flow, reasons)
            named = {topic: each for topic, each in errors.items() if each.command}
            self._context.metrics.set_aside(named)  # so the flow's last word has the commands
            lines += [f"\n    To leave it out: {each.command}" for each in named.values()]
            raise QueryError("".join([str(error), *lines]), is_final=True) from error


def _reasons(flow: Flow, error: QueryError, plan: TopicPlan) -> dict[TopicPartition, BadRecord]:
    found = {
        tp: f"{flow.target} rejects a record of {tp}, offset {record.offset}: {record.text}; "
        f"change the settings of {plan.topics[tp.topic]} on {flow.target} that reject it"
        for tp, record in error.rejected.items()
        if tp.topic in plan.topics
    } | {
        tp: f"{flow.source} has a record of {tp} that cannot be read: {text}; restore the "
        "partition from a replica, or remove its records up to the damaged ones with "
        "kafka-delete-records"
        for tp, text in error.unreadable.items()
        if tp.topic in plan.topics and not error.machine
    }
    reasons = {
        tp: f"{text}; or exclude {tp.topic} with topics.exclude" for tp, text in found.items()
    }
    reasons |= {
        tp: f"{text}; {transform_advice(tp.topic)}"
        for tp, text in error.undecided.items()
        if tp.topic in plan.topics
    }
    of_machine = error.unreadable if error.machine else ()
    reasons |= {
        tp: f"{tp} cannot be read here, for no fault of its records: {error.machine}"
        for tp in of_machine
        if tp.topic in plan.topics
    }
    offsets = {tp: record.offset for tp, record in error.rejected.items()}
    return {tp: BadRecord(text, offsets.get(tp)) for tp, text in reasons.items()}
