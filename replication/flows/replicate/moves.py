"""The positions that operators move, as of one search of positions, and what becomes of these."""

from replication.flows.context import FlowContext
from replication.model import NewEvent
from replication.positions.find import Found


class PendingMoves:
    """The requests that are there now.

    Args:
        context: The flow.

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
