"""Puts what operators change of a running flow in force, and says so.

The lists and pauses themselves are asked where topics are chosen, by ``context.config`` and
``context.steering``. This says when to look again, and afterwards what is in force: in the table
``changes``, of which the owner of the flow is the only writer, and to the commands that wait.
"""

import time
from collections.abc import Callable
from datetime import datetime
from threading import Event
from typing import Any, Final

from py4j.protocol import Py4JError

from replication.config.changes import NO_CHANGES, Change, Overrides
from replication.errors import ClusterError, StateError, first_line
from replication.figures.lag import utc
from replication.figures.observation import seconds_of
from replication.flows.context import FlowContext
from replication.flows.replicate.idle import apply_limits
from replication.flows.replicate.map_writer import MapWriter
from replication.model import NewEvent, TopicPartition
from replication.positions.expire import find_at_risk
from replication.state.change_files import SAID_SECONDS, Applied
from replication.state.claim import process_name
from replication.state.tables import now, reader_of
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan

CHANGES: Final = "changes"

RETRY_SECONDS: Final = 5.0
"""Between two attempts to put changes in force."""

WRITE_AGAIN_SECONDS: Final = 30.0
"""Between two attempts to write them down."""

RISK_SECONDS: Final = 60.0
"""Between two looks at what the source keeps of paused partitions."""

_SLICE_SECONDS: Final = 0.5
"""How late a change is noticed, once the process has listed the changes of all its flows."""


class OverrideFollower:
    """The changes of one flow, as its owner puts them in force."""

    def __init__(self, context: FlowContext, stored: MapWriter) -> None:
        self._context = context
        self._flow = context.config.flow
        self._stored = stored
        self._looked: Overrides | None = None  # what the newest plan was made by
        self._in_force = NO_CHANGES
        self._paused: tuple[TopicPartition, ...] = ()
        self._recorded: set[str] | None = None  # the names in the table; None before it was read
        self._told = set[str]()
        self._is_published = self._is_written = False
        self._retry_at = self._write_at = self._risk_at = 0.0
        self._at_risk = set[TopicPartition]()
        self._said = set[str]()

    def wait(
        self, stop: Event, seconds: float, is_over: Callable[[], bool] = lambda: False
    ) -> bool:
        """Waits for *seconds*, or until something was changed; returns whether *stop* is set."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.is_due and not is_over():
            if stop.wait(min(left, _SLICE_SECONDS)):
                return True
        return stop.is_set()

    @property
    def is_due(self) -> bool:
        """Whether something was changed since the last look; after a failed look not at once."""
        return self._context.steering is not self._looked or (
            self._in_force is not self._looked and time.monotonic() >= self._retry_at
        )

    @property
    def held(self) -> tuple[str, ...]:
        """The operations that hold the flow."""
        return self._context.steering.held

    def leaves_out(self, tp: TopicPartition) -> bool:
        """Returns whether an operator wants the upstream partition *tp* left out."""
        config = self._context.config
        return self._context.steering.paused.covers(tp) or not remote_topics(config, [tp.topic])

    def look(self, *, is_running: bool = False) -> None:
        """Notes that a plan is made by what is changed now; limits of what runs hold at once."""
        self._looked = self._context.steering
        if is_running:
            apply_limits(self._context)
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if self._context.config.mode == "drain":
            self._context.check_not_held()

    def follow(self, plan: TopicPlan, generation: int) -> None:
        """Says that what the last look has found is in force, with *plan*."""
        self._paused = plan.paused
        self._at_risk &= set(plan.paused)
        offsets = self._stored.next_offsets if plan.paused else {}
        topics = {tp.topic for tp in plan.paused}
        self._context.metrics.pause(
            {tp: offsets.get(tp) for tp in plan.paused}, remote_topics(self._context.config, topics)
        )
        if self._looked is None or self._in_force is self._looked:
            return
        self._write_at = 0.0
        self._in_force = self._looked
        self._is_published = self._is_written = False
        self._risk_at = 0.0
        self.record(generation)

    def record(self, generation: int) -> None:
        """Writes down what is in force and was not yet; says what cannot be read, or is at risk."""
        clock = time.monotonic()
        is_written = self._is_written and not self._context.changes.lost
        if clock >= self._write_at and not is_written:
            try:
                self._write(generation)
            except (StateError, OSError, Py4JError) as error:
                self._write_at = clock + WRITE_AGAIN_SECONDS
                self._context.log.warning("changes_not_recorded", text=first_line(error))
        self._say_unread(clock)
        if clock >= self._risk_at:
            self._risk_at = clock + RISK_SECONDS
            self._say_at_risk()

    def _write(self, generation: int) -> None:
        """Tells the commands that wait, then writes rows; does what is left of it."""
        tables, steering, changes = self._context.tables, self._in_force, self._context.changes
        if restored := changes.restore():
            text = f"{restored} changes had disappeared from {tables.root}/_control: written again"
            tables.record_event(self._flow, "changed", text, reaction="accept")
        if steering.held and self._context.is_acting:
            return  # what groups or settings get now may be by what was before the hold
        names = frozenset(change.name for change in steering.changes)
        if not self._is_published and names:
            at = now().isoformat(timespec="milliseconds")
            changes.publish(Applied(steering.number, names, process_name(), at, generation))
        self._is_published = True
        if not names:
            self._is_written = True
            return
        if self._recorded is None:  # an owner before may have been killed before it wrote a row
            rows = reader_of(tables).rows(CHANGES, self._flow)
            self._recorded = {f"{row['number']:010d}-{row['id']}" for row in rows}
        new = [change for change in steering.changes if change.name not in self._recorded]
        untold = [change for change in new if change.name not in self._told]
        # before the rows, by which the next owner sees what was told; after a failure not again
        tables.record_events(self._flow, [self._event(change) for change in untold])
        self._told |= {change.name for change in new}
        tables.append(CHANGES, [self._row(change, generation) for change in new])
        self._recorded |= {change.name for change in new}
        self._is_written = True
        changes.collect()

    def _row(self, change: Change, generation: int) -> dict[str, Any]:
        by, _, host = change.by.rpartition("@")
        return {
            "flow": str(self._flow),
            "number": change.number,
            "id": change.id,
            "what": change.what,
            "items": ", ".join(change.items),
            "scope": change.scope,
            "by": by or change.by,
            "host": host if by else "",
            "at": _time_of(change.at),
            "reason": change.reason,
            "applied_at": now(),
            "generation": generation,
            "effect": self._in_force.state_of(change, self._context.configured),
        }

    def _event(self, change: Change) -> NewEvent:
        state = self._in_force.state_of(change, self._context.configured)
        text = f"change {change.number}, {change.text}: {state}; by {change.origin}"
        return NewEvent("changed", text, "accept")

    def _say_unread(self, clock: float) -> None:
        old = {
            path: unread.text
            for path, unread in self._context.changes.unread.items()
            if clock - unread.since >= SAID_SECONDS and path not in self._said
        }
        self._said |= old.keys()
        self._context.tables.record_events(
            self._flow,
            [
                NewEvent(
                    "change-unreadable",
                    f"{path} has been no change for {SAID_SECONDS:g} s, and counts as absent: "
                    f"{text}. Remove it, and make the change again",
                    "skip",
                )
                for path, text in old.items()
            ],
        )

    def _say_at_risk(self) -> None:
        """Records an event for each paused partition that has come near the source's retention."""
        offsets = self._stored.next_offsets
        paused = {tp: offsets[tp] for tp in self._paused if tp in offsets}
        if not paused:
            return
        try:
            found = find_at_risk(self._context.source, paused)
        except ClusterError as error:
            self._context.log.warning("idle_check_failed", text=error)
            return
        news = found.keys() - self._at_risk
        self._at_risk = set(found)
        self._context.tables.record_events(
            self._flow, [self._risk(tp, found[tp]) for tp in sorted(news)]
        )

    def _risk(self, tp: TopicPartition, text: str) -> NewEvent:
        advice = f"resume it, or raise the retention of {tp.topic} on {self._flow.source}"
        details = {**tp._asdict(), "offset_from": self._stored.next_offsets[tp]}
        return NewEvent("paused-at-risk", f"{tp} is paused, and {text}: {advice}", "keep", details)


def _time_of(text: str) -> datetime | None:
    try:
        return utc(seconds_of(text))
    except ValueError:
        return None
