"""What a request asks for: the flow of its path, a page of a list, a stretch of time."""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, Field

from replication.config.tree import FlowConfig
from replication.figures.observation import seconds_of, text_of
from replication.serve.questions import Questions
from replication.serve.snapshots import FIGURES, FlowSnapshot, FlowSnapshots, History

# A page of a list: filtered, sorted, and found again although the list has changed.

Item = TypeVar("Item")
Value = float | str | None
"""What a list is sorted by; None is unknown, and comes last in either direction."""

LIMIT: Final = 100
MOST: Final = 1000
_LAST: Final = 2
_WORDS: Final = 1
_NUMBERS: Final = 0


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What of a list is wanted.

    Args:
        limit: The most items of a page.
        cursor: Where the page begins, as the page before it said; empty for the first.
        q: Only items whose name has this, in any case; empty for all.
        sort: The name of what they are sorted by, with - before it for the greatest first.
    """

    limit: int = LIMIT
    cursor: str = ""
    q: str = ""
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list; *total* counts all pages, and the last one has no *next* cursor."""

    items: tuple[Item, ...]
    next: str | None
    total: int

    def answer(
        self, shown: Callable[[Item], Any], as_of: float | None, *, is_stale: bool = False
    ) -> dict[str, Any]:
        """Returns what is answered: its items as *shown*, of a time in epoch seconds."""
        return {
            "items": list(map(shown, self.items)),
            "next": self.next,
            "total": self.total,
            "as_of": None if as_of is None else text_of(as_of),
            "stale": is_stale,
        }


class PagingError(ValueError):
    """A query that cannot be met. The text says what to write."""


class CursorError(PagingError):
    """The cursor is none of this list."""


def page_of(
    items: Iterable[Item],
    query: ListQuery,
    name: Callable[[Item], str],
    values: Mapping[str, Callable[[Item], Value]],
) -> Page[Item]:
    """Returns the page of *items* that *query* asks for.

    A cursor is the place of the last item in the order, not a number of items, so what comes and
    goes between two pages makes none appear twice that keeps its place, and none be left out.

    Args:
        items: The whole list.
        query: What of it is wanted.
        name: The name of an item, unlike any other's; the order of items that are alike.
        values: What items can be sorted by: the name of it, and an item's value.
    """
    wanted = query.q.casefold()
    found = [item for item in items if wanted in name(item).casefold()]
    downwards, by = query.sort.startswith("-"), query.sort.removeprefix("-")
    if by not in values:
        raise PagingError(f"sort: {query.sort!r} is unknown; write one of {', '.join(values)}")

    def place(item: Item) -> tuple[int, float | str, str]:
        return _place(values[by](item), name(item))

    # the least of equal values by name, in either direction
    found.sort(key=name)
    known = [item for item in found if place(item)[0] != _LAST]
    unknown = [item for item in found if place(item)[0] == _LAST]
    known.sort(key=lambda item: place(item)[:2], reverse=downwards)
    ordered = known + unknown
    begin = _begin(ordered, query, place, downwards=downwards) if query.cursor else 0
    items_of_page = tuple(ordered[begin : begin + query.limit])
    more = begin + query.limit < len(ordered)
    cursor = _cursor(query, place(items_of_page[-1])) if more and items_of_page else None
    return Page(items_of_page, cursor, len(ordered))


def _place(value: Value, name: str) -> tuple[int, float | str, str]:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _LAST, 0, name
    return (_WORDS if isinstance(value, str) else _NUMBERS), value, name


def _begin(
    ordered: Sequence[Item],
    query: ListQuery,
    place: Callable[[Item], tuple[int, float | str, str]],
    *,
    downwards: bool,
) -> int:
    """Returns where the items begin that come after the one in the cursor."""
    kind, value, name = _parse(query)

    def is_after(item: Item) -> bool:
        own = place(item)
        if own[0] == _LAST or kind == _LAST or own[1] == value:
            return (own[0] == _LAST, own[2]) > (kind == _LAST, name)
        return (own[:2] < (kind, value)) if downwards else (own[:2] > (kind, value))

    return next((n for n, item in enumerate(ordered) if is_after(item)), len(ordered))


def _cursor(query: ListQuery, place: tuple[int, float | str, str]) -> str:
    text = json.dumps([query.sort, query.q, *place])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse(query: ListQuery) -> tuple[int, float | str, str]:
    error = CursorError(
        "cursor: is none of this list; take it from `next` of the page before, with the same sort "
        "and q, or leave it out"
    )
    try:
        padded = query.cursor + "=" * (-len(query.cursor) % 4)
        parts = json.loads(base64.urlsafe_b64decode(padded))
        sort, q, kind, value, name = parts
    except (ValueError, TypeError, RecursionError):
        raise error from None
    if not isinstance(kind, int):
        raise error
    is_value = isinstance(value, str) if kind == _WORDS else isinstance(value, int | float)
    is_number = not isinstance(value, bool) and kind in {_NUMBERS, _WORDS, _LAST}
    if [sort, q] != [query.sort, query.q] or not (is_value and is_number and isinstance(name, str)):
        raise error
    return kind, value, name


LONGEST_WAIT: Final = 25.0

Alias = Annotated[str, Path(max_length=249, description="A cluster's alias.")]


def _part(name: str) -> Any:  # noqa: ANN401 - as of Depends
    """Returns what finds a part of the application, for each request."""

    def part(request: Request) -> object:
        return getattr(request.app.state, name)

    return Depends(part)


KnownSnapshots = Annotated[FlowSnapshots, _part("snapshots")]
Asked = Annotated[Questions, _part("questions")]
Remembered = Annotated[History, _part("history")]


def flow_of(source: Alias, target: Alias, asked: Asked) -> FlowConfig:
    """Returns the flow of a path."""
    return asked.flow(source, target)


OneFlow = Annotated[FlowConfig, Depends(flow_of)]


def seen_of(flow: OneFlow, known: KnownSnapshots) -> FlowSnapshot:
    """Returns what was seen of the flow of a path."""
    return known.see(flow.flow)


def queries(default: str, *names: str) -> Callable[..., ListQuery]:
    """Returns what reads the page that is wanted of a list that can be sorted by *names*."""
    orders = [f"{sign}{name}" for name in names for sign in ("", "-")]

    def wish_of(
        limit: Annotated[int, Query(ge=1, le=MOST)] = LIMIT,
        cursor: Annotated[str, Query(max_length=4000)] = "",
        q: Annotated[str, Query(max_length=249, description="A part of the name.")] = "",
        sort: Annotated[str, Query(json_schema_extra={"enum": orders})] = default,
    ) -> ListQuery:
        return ListQuery(limit, cursor, q, sort or default)

    return wish_of


FLOW_FIGURES: Final = ("lag_seconds", "lag_records", "records_per_second", "rpo_seconds")
TOPIC_FIGURES: Final = (
    "lag_seconds",
    "lag_records",
    "lag_bytes",
    "records_per_second",
    "bytes_per_second",
    "records_total",
    "bytes_total",
    "retention_headroom_seconds",
    "copied_until_timestamp_seconds",
)
PARTITION_FIGURES: Final = ("lag_seconds", "lag_records")
GROUP_FIGURES: Final = (
    "group_lag_records",
    "group_position_age_seconds",
    "group_reread_records",
    "group_unreplicated_records",
)
FlowQuery = Annotated[ListQuery, Depends(queries("flow", "flow", "state", *FLOW_FIGURES))]
TopicQuery = Annotated[
    ListQuery, Depends(queries("-lag_seconds", "topic", "state", *TOPIC_FIGURES))
]
PartitionQuery = Annotated[
    ListQuery, Depends(queries("-lag_seconds", "partition", "state", *PARTITION_FIGURES))
]
GroupQuery = Annotated[
    ListQuery, Depends(queries("-group_unreplicated_records", "group", *GROUP_FIGURES))
]
GroupPartitionQuery = Annotated[ListQuery, Depends(queries("partition", "partition", "lag"))]
PositionQuery = Annotated[ListQuery, Depends(queries("partition", "partition", "lag", "state"))]
ChangeQuery = Annotated[ListQuery, Depends(queries("-number", "number", "at"))]
ConditionQuery = Annotated[ListQuery, Depends(queries("place", "place", "code", "topic", "since"))]
EventQuery = Annotated[ListQuery, Depends(queries("-at", "at"))]
SettingQuery = Annotated[ListQuery, Depends(queries("-origin", "key", "origin"))]


def _spelled_out(text: object) -> object:
    """Returns *text* unless it is a plain number, which pydantic would take for epoch seconds."""
    if isinstance(text, str) and not text[:5].endswith("-"):
        raise ValueError("write a time such as 2026-11-26T10:00:00Z")
    return text


Moment = Annotated[datetime, BeforeValidator(_spelled_out)]


class Translate(BaseModel):
    """An offset of a group, the next that it would read."""

    topic: str = Field(min_length=1, max_length=249, description="Its name on either cluster.")
    partition: int = Field(ge=0, le=2**31 - 1)
    offset: int = Field(ge=0, le=2**63 - 1)
    back: bool = Field(False, description="From the target to the source.")


class Stretch(BaseModel):
    """A figure over some time."""

    figure: str = Field(json_schema_extra={"enum": list(FIGURES)})
    topic: str | None = Field(None, max_length=249)
    since: Moment | None = Field(None, alias="from")
    until: Moment | None = Field(None, alias="to")
    step: int = Field(60, ge=1, le=86_400, description="In seconds.")


class Chosen(BaseModel):
    """Which events are wanted."""

    flow: str = Field("", max_length=500, description="Such as A->B.")
    kind: str = Field("", max_length=64)
    topic: str = Field("", max_length=249)
    since: Moment | None = None
    after: Moment | None = Field(None, description="Only newer ones.")
    wait: float = Field(0, ge=0, le=LONGEST_WAIT, description="Seconds to wait for one.")

    def has(self, row: Mapping[str, Any]) -> bool:
        """Returns whether the event *row* is one of them."""
        at = seconds_of(row["at"])
        return (
            self.flow in {"", f"{row['flow']['source']}->{row['flow']['target']}"}
            and self.kind in {"", row["kind"]}
            and self.topic in {"", row["details"].get("topic")}
            and (not self.since or at >= epoch_seconds(self.since))
            and (not self.after or at > epoch_seconds(self.after))
        )


def group_of(
    group: Annotated[
        str, Path(max_length=1000, description="The name; / and spaces may be in it.")
    ],
    name: Annotated[
        str,
        Query(max_length=1000, description="Of a group that no path can name: groups/?name=.."),
    ] = "",
) -> str:
    """Returns the group of a path, or of the query where clients would take it for a folder."""
    return group or name


OneSeen = Annotated[FlowSnapshot, Depends(seen_of)]
OneGroup = Annotated[str, Depends(group_of)]


def epoch_seconds(at: datetime) -> float:
    """Returns epoch seconds; a time without a zone is in UTC."""
    return at.replace(tzinfo=at.tzinfo or timezone.utc).timestamp()
