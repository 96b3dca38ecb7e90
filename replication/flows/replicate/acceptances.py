"""What operators have accepted, as of one search of positions, and what becomes of the requests."""

from collections.abc import Collection

from replication.flows.context import FlowContext
from replication.model import TopicPartition
from replication.topics.topic_plan import TopicPlan


class Acceptances:
    """The requests that are there now.

    Args:
        context: The flow.

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

        Args:
            plan: The topics whose positions were searched.
            refused: The partitions that cannot go on.
            are_positions_used: Whether the positions of all others are in the offset map.
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
