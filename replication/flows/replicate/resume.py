"""Writes where partitions resume: to the offset map, to the events, and to what was accepted."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.replicate.failures import QueryError
from replication.flows.replicate.map_writer import MapWriter
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.moved import MovedPosition
from replication.offsets.runs import FinishedRuns
from replication.positions.find import Found, find_positions
from replication.positions.measure import InFlight
from replication.positions.originals import changed_transforms
from replication.positions.survey import AskedPositions
from replication.topics.topic_plan import TopicPlan


class Acceptances:
    """The requests that are there now.

    Attributes:
        accepted: By upstream partition; of two requests the newer one counts.
    """

    def __init__(self, context: FlowContext) -> None:
        self.log = context.log
        self._requests = context.accept_requests
        self._found = self._requests.find()
        context.tables.record_events(context.config.flow, self._requests.events(self._found))
        self.accepted = {
            tp: accepted for request in self._found for tp, accepted in request.accepted.items()
        }

    def settle(
        self, plan: TopicPlan, refused: Collection[TopicPartition], *, are_positions_used: bool
    ) -> None:
        """Removes the requests that have done their work, or cannot do it.

        A request stays while another partition of its topic is refused.

        The positions of *plan* were searched, and partitions *refused* cannot go on; if
        *are_positions_used*, those of all others are in the offset map.
        """
        topics = {tp.topic for tp in refused}
        for request in self._found:
            if request.topic not in plan.topics:
                continue
            if not request.accepted.keys().isdisjoint(refused):
                text = f"{request.topic} cannot go on at the accepted offset {request.start}"
                self.log.warning("accept_request_unused", text=text)
                self._requests.remove([request])
            elif are_positions_used and request.topic not in topics:
                if origin := request.request.origin:
                    text = f"{request.topic} goes on at {request.start}, accepted by {origin}"
                    self.log.info("accept_request_used", text=text)
                self._requests.remove([request])


class PendingMoves:
    """The requests that are there now.

    Attributes:
        wanted: By upstream partition; of two requests the newer one counts.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._requests = context.move_requests
        self._found = self._requests.find()
        context.tables.record_events(context.config.flow, self._requests.events(self._found))
        self.wanted = {each.partition: each.moving for each in self._found}

    def settle(self, found: Found) -> None:
        """Removes the requests that have done their work, or cannot do it any more.

        A request stays while its topic is refused or gone, or its partition has no leader or is
        paused. It must be called when the positions of *found* are in the offset map.
        """
        done, events = [], list[NewEvent]()
        newest = {each.partition: each for each in self._found}
        for each in self._found:
            tp = each.partition
            if newest[tp] is not each:
                why: str | None = "a newer request is about the same partition"
            else:
                why = found.unmoved.get(tp)
            if why is not None:
                text = f"the move of {tp} to {each.moving.to} is not done: {why}"
                events.append(NewEvent("move-unused", text, "keep", tp._asdict()))
            elif tp in found.verdicts:
                text = f"{tp} goes on at source offset {found.positions[tp].upstream}"
                if origin := each.request.origin:
                    text = f"{text}, moved by {origin}"
                self._context.log.info("move_request_used", text=text)
            else:
                continue
            done.append(each)
        self._context.tables.record_events(self._context.config.flow, events)
        self._requests.remove(done)


CopyLost = Callable[
    [Mapping[TopicPartition, tuple[int, int]], Mapping[TopicPartition, Position]], None
]
MOST_TRIES: Final = 3
"""How often what was cut off a target is copied again: each time what is missing still."""


def settle_positions(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    generation: int,
    in_flight: InFlight = "reported",
    *,
    copy_lost: CopyLost,
) -> Found:
    """Finds where the partitions of *plan* resume, and writes what is new to the offset map.

    No query replicates them. *copy_lost* copies again what was cut off the target, before anything
    is written; *in_flight* is as in `find_positions`.
    """
    acceptances, moves = Acceptances(context), PendingMoves(context)
    find = partial(
        find_positions,
        context,
        plan,
        map_writer,
        AskedPositions(acceptances.accepted, moves.wanted),
        rejected=map_writer.rejected.keys(),
    )
    found, tries = find(in_flight=in_flight), 0
    while found.missing:
        if tries == MOST_TRIES:
            names = ", ".join(map(str, sorted(found.missing)))
            text = f"what was cut off the target was copied, and is not found there: {names}"
            raise QueryError(f"flow {context.config.flow}: {text}", is_final=False)
        tries += 1
        copy_lost(found.missing, {tp: found.positions[tp] for tp in found.missing})
        found = find(in_flight="reported")
    context.tables.record_events(context.config.flow, found.events)
    context.tables.record_events(context.config.flow, _changes(plan, map_writer, found))
    map_writer.leaders.begin(plan, found.positions, found.epochs)
    map_writer.replace(FinishedRuns(generation, found.recut, plan.source_ids, epochs=found.epochs))
    map_writer.forget({*found.void, *found.recreated})
    map_writer.record(found.new_runs, plan.source_ids)
    map_writer.placed -= found.adopted
    others = {*found.void, *found.recreated, *found.adopted, *found.recut}
    own = {tp: runs for tp, runs in found.new_runs.items() if tp not in others}
    context.metrics.settle(found.positions, own)
    again = {
        tp: at.position.upstream
        for tp, at in found.verdicts.items()
        if isinstance(at, MovedPosition) and at.copied_again
    }
    context.metrics.repeat(again, generation)
    map_writer.write(FinishedRuns(generation, found.new_runs, plan.source_ids, epochs=found.epochs))
    # after the new rows: a crash in between must not leave a partition without a position
    map_writer.delete(found.void, before_generation=generation)
    for text in found.warnings:
        context.log.warning("not_taken_over", text=text)
    acceptances.settle(plan, found.refused, are_positions_used=True)
    moves.settle(found)
    return found


def _changes(plan: TopicPlan, map_writer: MapWriter, found: Found) -> list[NewEvent]:
    """Returns an event for each partition that other transforms go on with than have written it."""
    changed = changed_transforms(plan, map_writer)
    return [
        NewEvent(
            "transform-changed",
            f"from offset {at.upstream} on, {tp} is copied by the transforms of now; what "
            f"{plan.copy_of(tp)} holds before offset {at.downstream} stays as others have left it",
            "keep",
            {**tp._asdict(), "offset_from": at.upstream},
        )
        for tp, at in sorted(found.positions.items())
        if tp.topic in changed
    ]
