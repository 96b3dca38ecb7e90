"""Which groups a cluster rejects now, by the events of a flow. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

REJECTED: Final = "group-rejected"
ACCEPTED: Final = "group-accepted"

KEYS: Final = ["kind", "group", "topic", "text"]
"""The newest row of each value of these columns of ``events`` is asked for. The text names the
cluster, which has no column in a table of an earlier version."""


class Rejected:
    """The last that was said of each group: by which cluster, and for which internal topic."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, str | None], str] = {}

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Rejected":
        """Returns what *rows* of ``events`` say, those of other kinds and versions left out."""
        found = cls()
        for row in sorted(rows, key=lambda row: row["at"]):
            if row["kind"] in {REJECTED, ACCEPTED} and row.get("cluster") and row["group"]:
                found.add(row["kind"], row)
        return found

    def add(self, kind: str, row: Mapping[str, Any]) -> None:
        """Takes the next event."""
        text = row["text"] if kind == REJECTED else ""
        self._texts[row["group"], row["cluster"], row.get("topic")] = text

    def get(self, group: str, cluster: str, topic: str | None = None) -> str:
        """Returns why *cluster* rejects *group*; "" if it does not, as far as anybody has said."""
        return self._texts.get((group, cluster, topic), "")
