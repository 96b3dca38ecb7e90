"""The rows of the table ``events`` while a flow may be writing them.

Those of groups are left out: on shared brokers, groups of other tests come and go.
"""

from typing import Any

from replication.errors import StateError
from replication.state.tables import Tables
from tests.support.stored import stored


def kinds(tables: Tables) -> list[str]:
    """The kinds of events, oldest first, without restarts of the query."""
    return [kind for kind, _ in kinds_of_topics(tables)]


def kinds_of_topics(tables: Tables) -> list[tuple[str, str | None]]:
    """Kind and topic of each event, oldest first, without restarts of the query."""
    return [(row.kind, row.topic) for row in _events(tables, "kind <> 'restarted'")]


def restarts(tables: Tables) -> list[str]:
    """Why queries were started anew, oldest first."""
    return [row.text for row in _events(tables, "kind = 'restarted'")]


def _events(tables: Tables, where: str) -> list[Any]:
    """The events that match an SQL condition, oldest first."""
    try:
        return stored(tables, "events", f'"group" IS NULL AND {where}')
    except StateError:  # the flow creates the table at this moment
        return []
