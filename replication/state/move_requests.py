"""Positions that operators move, on their way from ``replication move-position`` to the owner.

One file is about one partition, so that it can be removed when that partition has gone on, whatever
becomes of the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from replication.config.state_access import StateAccess
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.moved import Moving
from replication.state.owner_requests import OwnerRequests, ask_owner, is_whole
from replication.state.requests import NEW, Request, RequestChannel


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """One partition is to go on elsewhere.

    Args:
        partition: Upstream.
        moving: Where, and what the operator saw.
        request: The file that says so, and who asked; None for a new one.
    """

    partition: TopicPartition
    moving: Moving
    request: Request = NEW

    @property
    def event(self) -> NewEvent:
        """The event that tells who has asked for what."""
        what = f"move {self.partition} to {self.moving.to}"
        return self.request.event(what, "accept", **self.partition._asdict())

    @property
    def body(self) -> dict[str, Any]:
        """What the file says of it."""
        seen = self.moving.seen
        return {
            **self.partition._asdict(),
            "topic_id": self.moving.topic_id,
            "to": self.moving.to,
            "seen": None if seen is None else [seen.upstream, seen.downstream],
        }


class MoveRequests(OwnerRequests[MoveRequest]):
    """The requests to one flow."""

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        super().__init__(channel, flow, "move", parse_move)


def pending_moves(channel: RequestChannel, flow: Flow) -> dict[TopicPartition, MoveRequest]:
    """Returns the moves that wait for their use.

    Of two requests about one partition the newer one counts.
    """
    return {each.partition: each for each in MoveRequests(channel, flow).find()}


def request_moves(
    access: StateAccess, flow: Flow, moves: Iterable[MoveRequest], reason: str = ""
) -> None:
    """Hands *moves* to the process that runs *flow* next, or has it paused.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    ask_owner(access, flow, "move", (each.body for each in moves), reason)


def parse_move(request: Request) -> MoveRequest:
    """Returns the move that *request* asks for.

    Raises:
        ValueError: It asks for none; the error says what is wrong.
    """
    content = request.body
    topic, topic_id = content.get("topic"), content.get("topic_id")
    partition, to, seen = (
        content.get("partition", -1),
        content.get("to", -1),
        content.get("seen", ()),
    )
    if not isinstance(topic, str) or not isinstance(topic_id, str):
        raise ValueError("topic and topic_id must be strings")  # noqa: TRY004 - the text is wrong
    if not is_whole(partition, 31):
        raise ValueError("partition must be its number")
    if to != "earliest" and not is_whole(to, 63):
        raise ValueError("to must be an offset or earliest")
    pair = seen if isinstance(seen, list) else [] if seen is not None else [0, 0]
    if [is_whole(offset, 63) for offset in pair] != [True, True]:
        raise ValueError("seen must be the source offset and the target offset, or null")
    position = None if seen is None else Position(*pair)
    where = TopicPartition(topic, partition)
    return MoveRequest(where, Moving(to, position, topic_id), request)
