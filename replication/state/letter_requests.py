"""Which dead letters are to be copied again, on the way from a command to the owner of a flow."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from replication.config.state_access import StateAccess
from replication.model import Flow, NewEvent
from replication.offsets.dead_letter import LetterId
from replication.state.owner_requests import OwnerRequests, ask_owner
from replication.state.requests import Request, RequestChannel

LOOK_SECONDS: Final = 2.0
"""Between two polls for requests; on a remote state directory every poll is a billed call."""


@dataclass(frozen=True, slots=True)
class LetterRequest:
    """The letters *ids* are to be copied again."""

    ids: tuple[LetterId, ...]
    request: Request

    @property
    def event(self) -> NewEvent:
        """The event that tells who has asked for it."""
        topics = sorted({one.topic for one in self.ids})
        what = f"copy {len(self.ids)} dead letters of {', '.join(topics[:10])} again"
        return self.request.event(what, "retry")


class LetterRequests(OwnerRequests[LetterRequest]):
    """The requests to one flow."""

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        super().__init__(channel, flow, "letters", parse_letters)


def parse_letters(request: Request) -> LetterRequest:
    """Returns the letters that *request* names.

    Raises:
        ValueError: It names none; the error says what is wrong.
    """
    rows = request.body.get("letters")
    if not isinstance(rows, list):
        raise ValueError("letters must be a list")  # noqa: TRY004 - the text is wrong
    return LetterRequest(tuple(map(_letter, rows)), request)


def _letter(row: object) -> LetterId:
    kinds = [str, str, int, int]
    if not isinstance(row, list) or [type(part) for part in row] != kinds:
        raise ValueError("a letter is a list of topic, topic id, partition and offset")
    return LetterId(*row)


def request_letters(
    access: StateAccess, flow: Flow, ids: Collection[LetterId], reason: str = ""
) -> None:
    """Asks the process that runs *flow*, now or at its next start, to copy letters again.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    ask_owner(access, flow, "letters", [{"letters": [list(one) for one in sorted(ids)]}], reason)
