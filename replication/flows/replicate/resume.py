"""Writes where partitions resume: to the offset map, to the events, and to what was accepted."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.replicate.acceptances import Acceptances
from replication.flows.replicate.failures import QueryError
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.moves import PendingMoves
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.runs import FinishedRuns
from replication.positions.as_written import changed_transforms
from replication.positions.find import Found, find_positions
from replication.positions.moves import AskedPositions
from replication.positions.settle import InFlight
from replication.topics.topic_plan import TopicPlan

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

    Args:
        context: The flow.
        plan: Its topics; no query replicates them.
        map_writer: The offset map.
        generation: The number of the next generation.
        in_flight: As in `find_positions`.
        copy_lost: Copies again what was cut off the target, before anything is written.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be written.
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
    context.board.settle(found.positions, own)
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
