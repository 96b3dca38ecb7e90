"""Which replicated topics were deleted on the source, and which copies may also be deleted. Pure.

Deleting is the one thing that cannot be undone, so a copy is deleted only if nothing speaks
against it: a source that shows none of the flow's topics is perhaps not the flow's source.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

TopicId = tuple[str, str]
"""Name and id of an upstream topic."""

MISSING: Final = "missing"
BACK: Final = "back"
DELETED: Final = "deleted"


@dataclass(frozen=True, slots=True)
class Replicated:
    """A topic as its last generation replicated it, with its ids on both clusters."""

    topic: str
    topic_id: str
    remote: str
    remote_id: str


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of both clusters that exist now: name -> id.

    ``hidden`` are upstream topics whose existence the source does not tell, and
    ``unknown`` those of the target, each with its reason.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    hidden: Collection[str] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What a round reports and deletes.

    Args:
        missing: Topics that are gone on the source, and were there at the last round.
        back: Topics that were gone and exist again, with the same id.
        delete: Topics whose remote topic is to be deleted now.
        is_doubtful: Whether remote topics stay because no replicated topic is left on the source.
    """

    missing: tuple[Replicated, ...] = ()
    back: tuple[Replicated, ...] = ()
    delete: tuple[Replicated, ...] = ()
    is_doubtful: bool = False


def missing_since(rows: Iterable[Mapping[str, Any]]) -> dict[TopicId, datetime]:
    """Returns since when topics are missing, by the rows of the table ``topic_deletions``."""
    since: dict[TopicId, datetime] = {}
    follow(since, rows)
    return since


def follow(since: dict[TopicId, datetime], rows: Iterable[Mapping[str, Any]]) -> None:
    """Brings *since* up to date with rows of the table ``topic_deletions``, in any order.

    Args:
        since: Since when topics are missing.
        rows: What was recorded later.
    """
    for row in sorted(rows, key=lambda row: row["at"]):
        topic = (row["topic"], row["topic_id"])
        if row["state"] == MISSING:
            since[topic] = row["at"]
        elif row["state"] == BACK:
            since.pop(topic, None)


def fate(missing: Replicated, topics: Topics, target: str, grace: timedelta | None) -> str:
    """Returns what becomes of the remote topic of a *missing* one, in words that follow its name.

    Args:
        missing: What the flow replicated.
        topics: The topics that exist.
        target: The alias of the target.
        grace: How long remote topics stay; None if they are never deleted.
    """
    if missing.remote in topics.unknown:
        return f"may be on {target} or not: {topics.unknown[missing.remote]}"
    found = topics.target.get(missing.remote)
    if found is None:
        return f"is not on {target} either"
    if found != missing.remote_id:
        return f"was created again on {target} since, and stays"
    if grace is None:
        return f"stays on {target}"
    return (
        f"is deleted on {target} after {grace}, unless the topic comes back or none of the flow's "
        "topics is left"
    )


def plan_deletions(
    known: Iterable[Replicated],
    topics: Topics,
    since: Mapping[TopicId, datetime],
    now: datetime,
    grace: timedelta | None,
) -> DeletionPlan:
    """Returns what to report and to delete.

    A remote topic is deleted when its source topic has been missing for *grace*, if the remote
    topic is still the one that the flow wrote to. A source topic that was created again is not
    missing: what follows is decided when positions are found.

    Args:
        known: What the flow replicated and still selects.
        topics: The topics that exist.
        since: Since when topics are known to be missing.
        now: The time.
        grace: How long remote topics stay; None if they are never deleted.
    """
    known = list(known)
    gone = [
        replicated
        for replicated in known
        if replicated.topic not in topics.source and replicated.topic not in topics.hidden
    ]
    recorded = [
        replicated for replicated in known if (replicated.topic, replicated.topic_id) in since
    ]
    due = [
        replicated
        for replicated in recorded
        if replicated in gone
        and grace is not None
        and now - since[replicated.topic, replicated.topic_id] >= grace
        and topics.target.get(replicated.remote) == replicated.remote_id
    ]
    has_any = any(
        topics.source.get(replicated.topic) == replicated.topic_id for replicated in known
    )
    return DeletionPlan(
        missing=tuple(replicated for replicated in gone if replicated not in recorded),
        back=tuple(
            replicated
            for replicated in recorded
            if topics.source.get(replicated.topic) == replicated.topic_id
        ),
        delete=tuple(due) if has_any else (),
        is_doubtful=bool(due) and not has_any,
    )
