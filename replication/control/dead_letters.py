"""The dead letters of flows, as the tables have them, and the request to copy them again."""

from collections.abc import Sequence
from dataclasses import dataclass

from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import NoAnswerError
from replication.model import Flow
from replication.offsets.dead_letter import LetterId
from replication.state.delta import open_reader
from replication.state.folder import check_begun
from replication.state.letter_rows import KeptLetter, letters_of
from replication.state.requests import request_letters


@dataclass(frozen=True, slots=True)
class FlowLetters:
    """The letters of a flow, the oldest first."""

    flow: Flow
    letters: tuple[KeptLetter, ...]

    @property
    def waiting(self) -> tuple[KeptLetter, ...]:
        """Those that were not copied again."""
        return tuple(one for one in self.letters if one.state == "waiting")

    @property
    def possible(self) -> tuple[LetterId, ...]:
        """Those that can be copied again: what nobody could read is not kept."""
        return tuple(one.letter.id for one in self.waiting if one.letter.is_read)

    def documents(self) -> list[dict[str, object]]:
        """Returns what a command prints of each as JSON."""
        return [
            {
                "flow": str(self.flow),
                **one.letter.id._asdict(),
                "state": one.state,
                "at": one.at,
                "place": one.place,
                "stage": one.letter.stage,
                "reason": one.letter.reason,
                "timestamp_ms": one.letter.timestamp_ms,
                "is_read": one.letter.is_read,
            }
            for one in self.letters
        ]


def read_letters(
    config: MirrorConfig, flows: Sequence[FlowConfig], topic: str | None = None
) -> list[FlowLetters]:
    """Returns the letters of *flows*, of one upstream topic or of all.

    Raises:
        StateError: The tables cannot be read.
    """
    check_begun(config.state_dir)
    with open_reader(config.access) as state:
        found = [(flow.flow, letters_of(state, flow.flow)) for flow in flows]
    return [
        FlowLetters(flow, tuple(one for one in kept if topic in {None, one.letter.id.topic}))
        for flow, kept in found
    ]


def ask_to_copy(config: MirrorConfig, found: FlowLetters, reason: str) -> int:
    """Asks the owner of a flow to copy its letters again; returns how many can be.

    Raises:
        NoAnswerError: None waits that can be copied.
        StateError: The state directory cannot be written.
    """
    if not found.possible:
        raise NoAnswerError(f"flow {found.flow} has no dead letter that waits and can be copied")
    request_letters(config.access, found.flow, found.possible, reason)
    return len(found.possible)
