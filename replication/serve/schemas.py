"""The shape of each answer: what OpenAPI says of it, and what an answer is checked against.

The properties of `figures` come from the registry, so that nothing else can be answered.
"""

from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from replication.config.changes import What
from replication.figures.observation import Code, FlowState, Health, Severity, TopicState
from replication.figures.registry import BY_NAME, FIGURES, Level, names_at
from replication.groups.positions import SyncCode
from replication.schemas.difference import Contradiction

Item = TypeVar("Item")
State = FlowState | Literal["silent", "unknown"]
Time = Annotated[str, Field(description="In UTC, such as 2026-11-26T10:00:05.120Z.")]


class Model(BaseModel):
    """The base of all answers: nothing unexpected is in them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HistogramDocument(Model):
    """Durations: how many are at most as long as each bound, and quantiles of the last minute."""

    p50: float | None
    p99: float | None
    p999: float | None
    max: float | None
    samples: int
    sum: float
    counts: list[int]


def _figures(level: Level) -> Any:  # noqa: ANN401 - pydantic's own signature
    """Returns a field with all plain figures at *level*, and their meanings."""
    number = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    properties: dict[str, Any] = {
        name: {**number, "description": BY_NAME[name].meaning} for name in names_at(level)
    }
    if level == "flow":
        durations = {
            "anyOf": [{"$ref": "#/components/schemas/HistogramDocument"}, {"type": "null"}]
        }
        properties |= {
            figure.name: {**durations, "description": figure.meaning}
            for figure in FIGURES
            if figure.kind == "histogram"
        }
    extra: Any = {"properties": properties, "additionalProperties": False}
    return Field(description=f"The figures of a {level}; null is unknown.", json_schema_extra=extra)


Figures = dict[str, float | None]


class FlowNameDocument(Model):
    """One direction of replication, by the aliases of its clusters."""

    source: str
    target: str


class ConditionDocument(Model):
    """Something that an operator should know."""

    code: Code
    severity: Severity
    since: Time
    text: str
    next_step: str = Field(description="A command to copy, or what else to do.")
    topic: str | None


class OwnerDocument(Model):
    """The process that owns the records of a flow."""

    host: str
    pid: int
    since: Time
    part: str


class ClusterDocument(Model):
    """One cluster, as the owner of a flow sees it."""

    name: str
    reachable: bool
    since: Time | None
    clock_skew_seconds: float | None


class FlowDocument(Model):
    """What is known of a flow. `silent` and `unknown` are states of whoever answers this."""

    flow: FlowNameDocument
    state: State
    last_state: FlowState | None = Field(description="The flow's own last word.")
    since: Time | None
    reason: str
    health: Health | None
    as_of: Time | None
    stale: bool
    text: str = Field(description="Why nothing newer is known, or how the flow ended.")
    conditions: list[ConditionDocument]
    owner: OwnerDocument | None
    standbys: int | None = Field(
        description="Processes of other machines that wait for it; null if none is known."
    )
    epoch: int | None
    mode: str | None
    runs: str | None
    generation: int | None
    version: str
    figures: Annotated[dict[str, float | HistogramDocument | None], _figures("flow")]
    labelled: dict[str, dict[str, float]] = Field(
        description="Figures with one label: the figure, the label's value, the number."
    )
    clusters: list[ClusterDocument]
    ended_at: Time | None
    exit_code: int | None


class TopicDocument(Model):
    """One upstream topic of a flow."""

    topic: str
    remote: str | None
    state: TopicState
    reason: str
    figures: Annotated[Figures, _figures("topic")]
    topic_latency_seconds: dict[str, float] = Field(description="By quantile, of the last 60 s.")


class PartitionDocument(Model):
    """One partition of an upstream topic."""

    partition: int
    state: TopicState | None = Field(description="null if both clusters were asked now.")
    figures: Annotated[Figures, _figures("partition")]
    target_end: int | None = Field(
        None, description="The offset of the next record on the target; only with live=true."
    )


class GroupDocument(Model):
    """One consumer group of the source, as of the last round of checkpoints."""

    group: str
    figures: Annotated[Figures, _figures("group")]
    partitions: dict[str, int] = Field(description="How many have which answer.")


class PlaceDocument(Model):
    """An offset on one cluster."""

    committed: int | None
    lag: int | None = None
    state: str | None = None


class SyncDocument(Model):
    """Why the target has the offset that it has."""

    code: SyncCode
    text: str


class GroupPartitionDocument(Model):
    """One group in one partition; both clusters and the offset map were asked for it now."""

    group: str
    topic: str
    remote_topic: str
    partition: int
    source: PlaceDocument
    translated: dict[str, Any]
    target: PlaceDocument
    sync: SyncDocument


class EventDocument(Model):
    """A row of the table `events`."""

    flow: FlowNameDocument
    at: Time
    kind: str
    text: str
    reaction: str
    details: dict[str, str | int]


class ClusterOfFlowsDocument(Model):
    """One cluster, and what each flow's owner says of it."""

    name: str
    bootstrap_servers: str | None
    unanswered: str | None = Field(description="Why it does not answer this server.")
    seen: list["ClusterSeenDocument"]


class ClusterSeenDocument(Model):
    """What the owner of a flow says of a cluster."""

    flow: FlowNameDocument
    reachable: bool | None = Field(description="null while nothing newer is known of the flow.")
    since: Time | None
    clock_skew_seconds: float | None


class HeartbeatDocument(Model):
    """The newest heartbeat of a flow's source on its target."""

    flow: FlowNameDocument
    timestamp: Time | None
    age_seconds: float | None
    latency_seconds: float | None


class SettingDocument(Model):
    """One key of the configuration. References to secrets are not resolved, secrets are masked."""

    key: str
    value: str
    origin: str = Field(description="The file with the line, or `default`.")


class PointDocument(Model):
    """The values of a figure in a step of time; null where it was unknown."""

    at: Time
    min: float | None
    max: float | None
    avg: float | None
    sum: float | None


class FreshnessDocument(Model):
    """How long a flow may still lag by its objective; null where there is no history of it."""

    flow: FlowNameDocument
    lag_seconds: float = Field(description="`slo.lag.seconds`: a minute with more is late.")
    objective: float = Field(description="The share of minutes that should not be late.")
    days: int
    minutes: int | None = Field(description="Those of the days before now that history has.")
    late_minutes: int | None = Field(description="What is paused makes no minute late.")
    paused_minutes: int | None = Field(description="Those in which something was paused.")
    fresh_share: float | None
    budget_minutes: float = Field(description="How many late minutes the objective allows.")
    left_minutes: float | None = Field(description="Negative: it is missed by so many.")


class RequestedDocument(Model):
    """A request that was made; `events` has what comes of it."""

    flow: FlowNameDocument
    dry_run: bool
    what: dict[str, Any]
    see: str


class PageDocument(Model, Generic[Item]):
    """A part of a list."""

    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null on the last.")
    total: int = Field(description="How many items all pages have.")
    as_of: Time | None
    stale: bool


class GroupPageDocument(PageDocument[GroupPartitionDocument]):
    """Where a group is, by partition."""

    problems: list[str] = Field(description="Why the answer may be incomplete or older.")


class PositionDocument(Model):
    """Where one partition stands, by the offset map; null is what is not known."""

    topic: str
    partition: int
    source_offset: int | None
    target_offset: int | None
    source_log_end: int | None
    lag: int | None
    map_age_seconds: float | None
    state: str
    reason: str | None
    moves_to: int | str | None = Field(description="A move that waits for its use.")


class PositionPageDocument(PageDocument[PositionDocument]):
    """Where partitions stand."""

    problems: list[str] = Field(description="What is not known, or may be older.")


class ChangeDocument(Model):
    """What somebody has changed of a flow while it ran, or between two runs."""

    number: int
    id: str = Field(description="Tells changes of one number apart.")
    what: What
    items: list[str]
    scope: str = Field(description="The topics that a limit is for; empty: all of the flow.")
    text: str = Field(description="The change in words.")
    by: str = Field(description="The user and host of a command, or the name of a token.")
    at: str = Field(description="By the clock of whoever made it; in UTC.")
    reason: str
    state: str = Field(description="`in force`, or why it is not: `undone`, or a later change.")
    followed: bool = Field(description="Whether a process has said that it follows the change.")


class ChangePageDocument(PageDocument[ChangeDocument]):
    """What was changed of a flow, the newest first."""

    problems: list[str] = Field(description="Why the history may be incomplete.")


class MissingVersionDocument(Model):
    """A version of a subject that the target's schema registry lacks."""

    subject: str
    version: int
    id: int


class SchemaConflictDocument(Model):
    """Why a version cannot be registered on the target as it is on the source."""

    kind: Contradiction
    text: str


class TranslatedIdDocument(Model):
    """An id that records of a topic have at the target, in the place of one of the source."""

    topic: str
    part: str
    source_id: int
    target_id: int
    subject: str


class RegistriesDocument(Model):
    """What the target's schema registry lacks, or which ids stand for which."""

    flow: str
    mode: str
    topics: list[str] = Field(description="Whose records carry ids.")
    missing: list[MissingVersionDocument]
    levels: dict[str, str] = Field(description="Compatibility levels that the target lacks.")
    conflicts: list[SchemaConflictDocument]
    ids: list[TranslatedIdDocument]


class TranslationDocument(Model):
    """An offset on the other cluster."""

    flow: str
    topic: str
    remote_topic: str
    partition: int
    back: bool
    from_offset: int
    to: dict[str, Any]
    problems: list[str] = Field(description="Why the offset map may be older than now.")


class ProblemDocument(Model):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    next_step: str


PROBLEM: Final = {"model": ProblemDocument, "content": {"application/problem+json": {}}}
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = dict.fromkeys(
    (400, 401, 403, 404, 405, 409, 421, 422, 503), PROBLEM
)
