"""What a request asks for: the flow of its path, a page of a list, a stretch of time."""

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, Field

from replication.config.tree import FlowConfig
from replication.figures.document import seconds_of
from replication.serve.history import History
from replication.serve.paging import LIMIT, MOST, Wish
from replication.serve.questions import Questions
from replication.serve.sight import FIGURES, Seen, Sight

LONGEST_WAIT: Final = 25.0

Alias = Annotated[str, Path(max_length=249, description="A cluster's alias.")]


def sight(request: Request) -> Sight:
    """Returns what was seen of all flows."""
    found: Sight = request.app.state.sight
    return found


def questions(request: Request) -> Questions:
    """Returns what asks clusters and tables."""
    found: Questions = request.app.state.questions
    return found


def history(request: Request) -> History:
    """Returns what is remembered of figures."""
    found: History = request.app.state.history
    return found


def flow_of(
    source: Alias, target: Alias, asked: Annotated[Questions, Depends(questions)]
) -> FlowConfig:
    """Returns the flow of a path."""
    return asked.flow(source, target)


def seen_of(
    flow: Annotated[FlowConfig, Depends(flow_of)], known: Annotated[Sight, Depends(sight)]
) -> Seen:
    """Returns what was seen of the flow of a path."""
    return known.see(flow.flow)


def wishes(default: str, *names: str) -> Callable[..., Wish]:
    """Returns what reads the page that is wanted of a list that can be sorted by *names*."""
    orders = [f"{sign}{name}" for name in names for sign in ("", "-")]

    def wish_of(
        limit: Annotated[int, Query(ge=1, le=MOST)] = LIMIT,
        cursor: Annotated[str, Query(max_length=4000)] = "",
        q: Annotated[str, Query(max_length=249, description="A part of the name.")] = "",
        sort: Annotated[str, Query(json_schema_extra={"enum": orders})] = default,
    ) -> Wish:
        return Wish(limit, cursor, q, sort or default)

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
FlowWish = Annotated[Wish, Depends(wishes("flow", "flow", "state", *FLOW_FIGURES))]
TopicWish = Annotated[Wish, Depends(wishes("-lag_seconds", "topic", "state", *TOPIC_FIGURES))]
PartitionWish = Annotated[
    Wish, Depends(wishes("-lag_seconds", "partition", "state", *PARTITION_FIGURES))
]
GroupWish = Annotated[Wish, Depends(wishes("-group_unreplicated_records", "group", *GROUP_FIGURES))]
GroupPartitionWish = Annotated[Wish, Depends(wishes("partition", "partition", "lag"))]
PositionWish = Annotated[Wish, Depends(wishes("partition", "partition", "lag", "state"))]
ChangeWish = Annotated[Wish, Depends(wishes("-number", "number", "at"))]
EventWish = Annotated[Wish, Depends(wishes("-at", "at"))]
SettingWish = Annotated[Wish, Depends(wishes("-origin", "key", "origin"))]


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


KnownSight = Annotated[Sight, Depends(sight)]
Asked = Annotated[Questions, Depends(questions)]
Remembered = Annotated[History, Depends(history)]
OneFlow = Annotated[FlowConfig, Depends(flow_of)]
OneSeen = Annotated[Seen, Depends(seen_of)]
OneGroup = Annotated[str, Depends(group_of)]


def epoch_seconds(at: datetime) -> float:
    """Returns epoch seconds; a time without a zone is in UTC."""
    return at.replace(tzinfo=at.tzinfo or timezone.utc).timestamp()
