"""What operators have accepted, on its way from ``replication accept`` to the owner of a flow.

The owner of the flow's lease reads the requests when it searches positions, and removes each once
it is used or of no use any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError

from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line
from replication.model import Flow, NewEvent, TopicPartition
from replication.offsets.guard import Accepted, StartOffset
from replication.state.open_files import open_files
from replication.state.open_storage import storage_for
from replication.state.paths import local_path
from replication.state.request_files import LocalFiles
from replication.state.requests import NEW, Request, RequestChannel, new_path, request

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


class AcceptRequests:
    """The requests to one flow."""

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow

    def find(self) -> list[AcceptRequest]:
        """Returns all requests, oldest first. Anything else is passed over, and logged once."""
        found = []
        for each in self._channel.find("accept", self._flow):
            try:
                found.append(parse_acceptance(each))
            except ValueError as error:  # noqa: PERF203 - the others count
                self._channel.invalid(each.path, error)
        return found

    def events(self, requests: Iterable[AcceptRequest]) -> list[NewEvent]:
        """Returns an event for each of *requests* that this process has not told of yet."""
        return [each.event for each in requests if self._channel.is_news(each.request.path)]

    def remove(self, requests: Iterable[AcceptRequest]) -> None:
        """Removes requests that are used, or of no use any more."""
        for each in requests:
            self._channel.remove(each.request.path)


def pending_acceptances(state_dir: str, flow: Flow) -> dict[TopicPartition, Accepted]:
    """Returns what operators have accepted for *flow*; none where the state directory is remote."""
    if local_path(state_dir) is None:
        return {}
    requests = AcceptRequests(RequestChannel(LocalFiles(), state_dir), flow).find()
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
    path = new_path(access.state_dir, "accept", flow)
    with open_files(storage_for(access)) as files:
        try:
            files.create(path, request(acceptance.body, reason).text())
        except (OSError, Py4JError) as error:
            raise StateError(f"cannot write the request {path}: {first_line(error)}") from error


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
    if not isinstance(partitions, list) or not all(_is_whole(number, 31) for number in partitions):
        raise ValueError("partitions must be a list of their numbers")
    if start not in ("earliest", "latest") and not _is_whole(start, 63):
        raise ValueError("from must be an offset, earliest or latest")
    return AcceptRequest(topic, topic_id, tuple(partitions), start, request)


def _is_whole(value: object, bits: int) -> bool:
    """Returns whether *value* is a whole number as Kafka's protocol has them; `True` is none."""
    return type(value) is int and 0 <= value < 1 << bits
