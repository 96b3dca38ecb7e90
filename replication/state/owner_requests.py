"""Requests to the owner of a flow about its positions: what every kind of them has in common.

The owner reads them when it searches positions, and removes each once it is used or of no use.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from py4j.protocol import Py4JError

from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line
from replication.model import Flow, NewEvent
from replication.state.open_files import open_files
from replication.state.open_storage import storage_for
from replication.state.requests import Request, RequestChannel, RequestKind, new_path, request


class OwnerRequest(Protocol):
    """What one file asks for, as a value of its kind."""

    @property
    def request(self) -> Request:
        """The file that says so, and who asked."""

    @property
    def event(self) -> NewEvent:
        """The event that tells who has asked for what."""


RequestT = TypeVar("RequestT", bound=OwnerRequest)


class OwnerRequests(Generic[RequestT]):
    """The requests of one kind to one flow.

    Args:
        channel: Where requests are.
        flow: The flow.
        kind: The kind.
        parse: Returns the value of a file, or raises ValueError.
    """

    def __init__(
        self,
        channel: RequestChannel,
        flow: Flow,
        kind: RequestKind,
        parse: Callable[[Request], RequestT],
    ) -> None:
        self._channel = channel
        self._flow = flow
        self._kind = kind
        self._parse = parse

    def find(self) -> list[RequestT]:
        """Returns all requests, oldest first. Anything else is passed over, and logged once."""
        found = []
        for each in self._channel.find(self._kind, self._flow):
            try:
                found.append(self._parse(each))
            except ValueError as error:  # noqa: PERF203 - the others count
                self._channel.invalid(each.path, error)
        return found

    def events(self, requests: Iterable[RequestT]) -> list[NewEvent]:
        """Returns an event for each of *requests* that this process has not told of yet."""
        return [each.event for each in requests if self._channel.is_news(each.request.path)]

    def remove(self, requests: Iterable[RequestT]) -> None:
        """Removes requests that are used, or of no use any more."""
        for each in requests:
            self._channel.remove(each.request.path)


def ask_owner(
    access: StateAccess,
    flow: Flow,
    kind: RequestKind,
    bodies: Iterable[dict[str, object]],
    reason: str = "",
) -> None:
    """Hands requests of *kind* to the process that runs *flow*, now or at its next start.

    Args:
        access: The state directory.
        flow: The flow.
        kind: The kind.
        bodies: What each request asks for.
        reason: Why, for the log of the process.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        for body in bodies:
            path = new_path(access.state_dir, kind, flow)
            try:
                files.create(path, request(body, reason).text())
            except (OSError, Py4JError) as error:
                text = f"cannot write the request {path}: {first_line(error)}"
                raise StateError(text) from error


def is_whole(value: object, bits: int) -> bool:
    """Returns whether *value* is a whole number as Kafka's protocol has them; `True` is none."""
    return type(value) is int and 0 <= value < 1 << bits
