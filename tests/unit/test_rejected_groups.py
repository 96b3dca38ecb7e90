"""Which groups a cluster rejects, by the newest events of each."""

from datetime import datetime, timedelta, timezone
from typing import Any

from replication.groups.positions import Rejected

START = datetime(2026, 11, 28, tzinfo=timezone.utc)


def row(at: int, kind: str, text: str = "", **columns: str | None) -> dict[str, Any]:
    common = {"group": "g", "cluster": "B", "topic": None, "kind": kind, "text": text}
    return {**common, "at": START + timedelta(seconds=at), **columns}


def test_the_newest_event_of_a_group_decides() -> None:
    rows = [
        row(3, "group-accepted", "it rejects g no more"),
        row(1, "group-rejected", "too long"),
        row(2, "group-rejected", "no right", group="h"),
        row(9, "group-gone", group="h"),
    ]

    found = Rejected.of(rows)

    assert (found.get("g", "B"), found.get("h", "B")) == ("", "no right")
    assert Rejected.of([*rows, row(4, "group-rejected", "again")]).get("g", "B") == "again"


def test_another_cluster_and_the_checkpoints_are_other_matters() -> None:
    found = Rejected.of(
        [
            row(1, "group-rejected", "too long"),
            row(2, "group-accepted", cluster="A"),
            row(3, "group-accepted", topic="A.checkpoints.internal"),
            row(4, "group-rejected", "of an earlier version", cluster=None),
        ]
    )

    assert found.get("g", "B") == "too long"
    assert found.get("g", "A") == found.get("g", "B", "A.checkpoints.internal") == ""
