"""Whether a stored position still belongs to the topics that both clusters have now. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The topic ids of a source topic and of its remote topic; None where it is not known."""

    source: str
    remote: str | None


@dataclass(frozen=True, slots=True)
class Void:
    """The position is of a deleted topic, and nothing keeps its partition from starting over."""

    text: str


@dataclass(frozen=True, slots=True)
class Recreated:
    """The source topic is a new one, but the remote topic holds records of the old one."""

    text: str


def check_topic_ids(
    names: tuple[str, str], stored: TopicIds, now: TopicIds, downstream: int, log_end: int | None
) -> Void | Recreated | None:
    """Returns what a partition's topic ids say about its stored position; None if it holds.

    Args:
        names: Of the source topic and of the remote one, for the texts.
        stored: The ids when the position was stored.
        now: The ids of today.
        downstream: The stored position on the target.
        log_end: Where the target's log ends now; None if it has no such partition.
    """
    topic, remote = names
    again = f"topic {topic} was deleted and created again (id {stored.source}, now {now.source})"
    if stored.remote is not None and now.remote not in {None, stored.remote}:
        return Void(f"remote topic {remote} was deleted and created again")
    if stored.remote is None and log_end == 0 and downstream > 0:  # rows of an earlier version
        return Void(f"remote topic {remote} is empty")
    if stored.source == now.source:
        return None
    if log_end == 0:
        return Void(again)
    return Recreated(f"{again}, and {remote} still holds records of the deleted topic")
