"""Where an operator wants a partition to go on, as written on a command line or in a file. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from replication.offsets.moved import MoveTo

GOALS: Final = "earliest, latest, an offset, +N, -N, or a time such as 2026-11-01T00:00:00Z"
LARGEST_OFFSET: Final = 2**63 - 1

_NUMBER: Final = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a partition is to go on.

    Args:
        kind: ``reset`` is what ``auto.offset.reset`` says.
        value: An offset; by how many offsets to move; or a time in ms since 1970.
    """

    kind: Literal["earliest", "latest", "offset", "shift", "time", "reset"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What a goal depends on.

    Args:
        position: The source offset at which the partition goes on by itself.
        end: The source's log end.
        at_time: The first source offset of the goal's time or later; None for another goal.
        reset: What ``auto.offset.reset`` says.
    """

    position: int
    end: int
    at_time: int | None
    reset: Literal["earliest", "latest"]


def parse_goal(text: str) -> Goal:
    """Returns the goal that *text* states.

    Raises:
        ValueError: It states none; the error says what to write.
    """
    if text in ("earliest", "latest"):
        return Goal("earliest" if text == "earliest" else "latest")
    if found := _NUMBER.fullmatch(text):
        number = int(found["digits"])
        if number > LARGEST_OFFSET:
            raise ValueError(f"{text} is greater than any offset")
        sign = found["sign"]
        return Goal("shift", -number if sign == "-" else number) if sign else Goal("offset", number)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is none of {GOALS}") from None
    if at.tzinfo is None:
        raise ValueError(f"{text} has no time zone: write {text}Z for UTC, or {text}+01:00")
    milliseconds = int(at.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"{text} is before 1970, where Kafka's times begin")
    return Goal("time", milliseconds)


def offset_of_goal(goal: Goal, place: Place) -> MoveTo:
    """Returns the offset that *goal* means, which need not exist.

    ``earliest`` stays a word: what is there when the move is used is meant.
    """
    kind = place.reset if goal.kind == "reset" else goal.kind
    match kind:
        case "earliest":
            return "earliest"
        case "latest":
            return place.end
        case "shift":
            return place.position + goal.value
        case "time":
            return place.end if place.at_time is None else place.at_time
    return goal.value
