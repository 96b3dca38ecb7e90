"""What operators have accepted, on its way from ``replication accept`` to the owner of a flow."""

from dataclasses import dataclass
from typing import Any, Final

from replication.config.state_access import StateAccess
from replication.model import Flow, NewEvent, TopicPartition
from replication.offsets.guard import Accepted, StartOffset
from replication.state.owner_requests import OwnerRequests, ask_owner, is_whole
from replication.state.requests import NEW, Request, RequestChannel

LOOK_SECONDS: Final = 2.0
"""Between two polls for requests; on a remote state directory every poll is a billed call."""

_SHOWN: Final = 10
"""Partitions that an event names."""


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """Partitions of *topic* may go on at *start*, if they cannot go on by themselves.

    Args:
        topic: The upstream topic.
        topic_id: Its id when the operator accepted.
        partitions: Their numbers.
        start: Where they go on.
        request: The file that says so, and who asked; None for a new one.
    """

    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    start: StartOffset
    request: Request = NEW

    @property
    def accepted(self) -> dict[TopicPartition, Accepted]:
        """The same for each partition."""
        value = Accepted(self.start, self.topic_id)
        return {TopicPartition(self.topic, number): value for number in self.partitions}

    @property
    def event(self) -> NewEvent:
        """The event that tells who has accepted what."""
        parts = ", ".join(map(str, self.partitions[:_SHOWN]))
        rest = len(self.partitions[_SHOWN:])
        more = f" and {rest} more" if rest else ""
        what = f"accept {self.topic} from {self.start} (partitions {parts}{more})"
        return self.request.event(what, "accept", topic=self.topic)

    @property
    def body(self) -> dict[str, Any]:
        """What the file says of it."""
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "from": self.start,
        }


class AcceptRequests(OwnerRequests[AcceptRequest]):
    """The requests to one flow."""

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        super().__init__(channel, flow, "accept", parse_acceptance)


def pending_acceptances(channel: RequestChannel, flow: Flow) -> dict[TopicPartition, Accepted]:
    """Returns what operators have accepted for *flow*, and no start has used yet."""
    requests = AcceptRequests(channel, flow).find()
    return {tp: accepted for each in requests for tp, accepted in each.accepted.items()}


def request_acceptance(
    access: StateAccess, flow: Flow, acceptance: AcceptRequest, reason: str = ""
) -> None:
    """Hands *acceptance* to the process that runs *flow*, now or at its next start.

    Args:
        access: The state directory.
        flow: The flow.
        acceptance: What is accepted.
        reason: Why, for the log of the process.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    ask_owner(access, flow, "accept", [acceptance.body], reason)


def parse_acceptance(request: Request) -> AcceptRequest:
    """Returns what *request* accepts.

    Raises:
        ValueError: It accepts nothing; the error says what is wrong.
    """
    content = request.body
    topic, topic_id = content.get("topic"), content.get("topic_id")
    partitions, start = content.get("partitions"), content.get("from", "")
    if not isinstance(topic, str) or not isinstance(topic_id, str):
        raise ValueError("topic and topic_id must be strings")  # noqa: TRY004 - the text is wrong
    if not isinstance(partitions, list) or not all(is_whole(number, 31) for number in partitions):
        raise ValueError("partitions must be a list of their numbers")
    if start not in ("earliest", "latest") and not is_whole(start, 63):
        raise ValueError("from must be an offset, earliest or latest")
    return AcceptRequest(topic, topic_id, tuple(partitions), start, request)
