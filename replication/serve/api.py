"""The resources under ``/api/v1`` that are read; `changes` has those that change something."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Query

from replication.control.positions import FlowPosition
from replication.control.schemas import look_at_schemas
from replication.control.translate import Question
from replication.errors import ReplicationError
from replication.figures.observation import (
    TopicState,
    topic_document,
)
from replication.foreign_json import to_json
from replication.model import TopicPartition
from replication.serve import schemas
from replication.serve.answers import (
    clusters_of,
    event_answer,
    find_topic,
    flow_answer,
    heartbeat_answer,
    steps,
)
from replication.serve.bounds import ASKS_CLUSTERS, ASKS_CLUSTERS_NOW, READS_TABLES, ProblemError
from replication.serve.dependencies import (
    FLOW_FIGURES,
    GROUP_FIGURES,
    PARTITION_FIGURES,
    TOPIC_FIGURES,
    Asked,
    Chosen,
    EventQuery,
    FlowQuery,
    GroupPartitionQuery,
    GroupQuery,
    KnownSnapshots,
    OneFlow,
    OneGroup,
    OneSeen,
    Page,
    PartitionQuery,
    PositionQuery,
    Remembered,
    SettingQuery,
    Stretch,
    TopicQuery,
    Translate,
    Value,
    epoch_seconds,
    page_of,
)
from replication.serve.questions import Questions, alias_of
from replication.serve.snapshots import FIGURES, FlowSnapshot

Item = TypeVar("Item")

_LOOK_SECONDS: Final = 0.5
router = APIRouter(prefix="/api/v1", responses=schemas.PROBLEMS)

TopicName = Annotated[str, Path(max_length=249, description="The upstream topic.")]


@router.get("/flows", response_model=schemas.PageDocument[schemas.FlowDocument])
def flows(known: KnownSnapshots, query: FlowQuery) -> dict[str, Any]:
    """Returns all flows of the configuration, with their figures."""
    snapshots = [known.see(flow) for flow in known.flows]
    values: dict[str, Callable[[FlowSnapshot], Value]] = {
        "flow": lambda seen: str(seen.flow),
        "state": lambda seen: seen.state,
        **{name: _figure_of_flow(name) for name in FLOW_FIGURES},
    }
    page = page_of(snapshots, query, lambda seen: str(seen.flow), values)
    ages = [seen.observation.as_of for seen in snapshots if seen.observation]
    is_stale = any(seen.is_stale for seen in snapshots)
    return page.answer(flow_answer, min(ages, default=None), is_stale=is_stale)


@router.get("/flows/{source}/{target}", response_model=schemas.FlowDocument)
def flow(seen: OneSeen) -> dict[str, Any]:
    """Returns one flow: its state, health, conditions, figures and owner."""
    return flow_answer(seen)


@router.get(
    "/flows/{source}/{target}/topics", response_model=schemas.PageDocument[schemas.TopicDocument]
)
def topics(seen: OneSeen, query: TopicQuery, state: TopicState | None = None) -> dict[str, Any]:
    """Returns the topics of a flow, those first that lag most."""
    found = seen.observation.topics if seen.observation else ()
    wanted = [topic for topic in found if state in {None, topic.state}]
    values = _values("topic", "state", figures=TOPIC_FIGURES)
    return _page(seen, page_of(wanted, query, attrgetter("topic"), values), topic_document)


@router.get("/flows/{source}/{target}/topics/{topic}", response_model=schemas.TopicDocument)
def topic(seen: OneSeen, topic: TopicName) -> dict[str, Any]:
    """Returns one topic of a flow, by its upstream or its remote name."""
    found = find_topic(seen.observation, topic)
    if found is None:
        raise _no_topic(seen, topic)
    return topic_document(found)


@router.get(
    "/flows/{source}/{target}/topics/{topic}/partitions",
    response_model=schemas.PageDocument[schemas.PartitionDocument],
    dependencies=[ASKS_CLUSTERS_NOW],
)
def partitions(
    seen: OneSeen,
    flow: OneFlow,
    asked: Asked,
    topic: TopicName,
    query: PartitionQuery,
    live: Annotated[bool, Query(description="Ask both clusters for the log ends now.")] = False,  # noqa: FBT002 - a query
) -> dict[str, Any]:
    """Returns the partitions of a topic, those first that lag most.

    What the owner publishes has the twenty worst of each topic.
    """
    found = find_topic(seen.observation, topic)
    if found is None:
        raise _no_topic(seen, topic)
    values = _values("partition", "state", figures=PARTITION_FIGURES)
    page = page_of(found.partitions, query, lambda part: f"{part.partition:010}", values)
    answer = _page(seen, page, to_json)
    if live and found.remote:
        numbers = [part.partition for part in page.items]
        ends, copies = asked.log_ends(flow, found.topic, found.remote, numbers)
        for item in answer["items"]:
            number = item["partition"]
            item["target_end"] = copies.get(number)
            item["figures"]["source_log_end"] = ends.get(number, item["figures"]["source_log_end"])
    return answer


@router.get(
    "/flows/{source}/{target}/groups", response_model=schemas.PageDocument[schemas.GroupDocument]
)
def groups(seen: OneSeen, query: GroupQuery) -> dict[str, Any]:
    """Returns the consumer groups of a flow, those first that would miss most."""
    found = seen.observation.groups if seen.observation else ()
    values = _values("group", figures=GROUP_FIGURES)
    return _page(seen, page_of(found, query, attrgetter("group"), values), to_json)


@router.get(
    "/flows/{source}/{target}/groups/{group:path}",
    response_model=schemas.GroupPageDocument,
    dependencies=[ASKS_CLUSTERS],
)
def group(
    flow: OneFlow, asked: Asked, group: OneGroup, query: GroupPartitionQuery
) -> dict[str, Any]:
    """Returns where a group is on both clusters, by partition; both clusters are asked now."""
    rows, problems = asked.group(flow, group)
    if not rows and not problems:
        raise ProblemError(
            404, "no-group", f"{group!r} is no group of {flow.flow} with commits; see groups"
        )

    def name_of(row: Any) -> str:  # noqa: ANN401 - as of the other lists
        return f"{row['topic']} {row['partition']:010}"

    values = {"partition": name_of, "lag": lambda row: row["source"]["lag"]}
    page = page_of(rows, query, name_of, values)
    return {**page.answer(dict, time.time()), "problems": problems}


@router.get(
    "/flows/{source}/{target}/positions",
    response_model=schemas.PositionPageDocument,
    dependencies=[ASKS_CLUSTERS],
)
def positions(
    flow: OneFlow,
    asked: Asked,
    query: PositionQuery,
    topic: Annotated[str, Query(max_length=249, description="Only this topic.")] = "",
) -> dict[str, Any]:
    """Returns where the partitions of a flow stand, by its offset map."""
    found = asked.positions(flow, [topic] if topic else [])

    def name_of(one: FlowPosition) -> str:
        return f"{one.partition.topic} {one.partition.partition:010}"

    values = {"partition": name_of, **_values("lag", "state")}
    page = page_of(found.positions, query, name_of, values)
    answer = page.answer(FlowPosition.document, time.time())
    return {**answer, "problems": list(found.problems)}


@router.get(
    "/flows/{source}/{target}/translate",
    response_model=schemas.TranslationDocument,
    dependencies=[ASKS_CLUSTERS],
)
def translate(
    flow: OneFlow, asked: Asked, question: Annotated[Translate, Query()]
) -> dict[str, Any]:
    """Translates a group's next offset to the other cluster; with `back` from the target.

    The process that runs the flow writes its offset map first.
    """
    where = TopicPartition(question.topic, question.partition)
    return asked.translate(flow, Question(where, question.offset, question.back))


@router.get(
    "/flows/{source}/{target}/history",
    response_model=list[schemas.PointDocument],
    dependencies=[READS_TABLES],
)
def figure_history(
    flow: OneFlow, remembered: Remembered, wanted: Annotated[Stretch, Query()]
) -> list[dict[str, Any]]:
    """Returns the values of a figure of a flow or a topic, by steps of time."""
    if wanted.figure not in FIGURES:
        raise ProblemError(422, "no-figure", f"figure: write one of {', '.join(FIGURES)}")
    end = time.time() if wanted.until is None else epoch_seconds(wanted.until)
    begin = end - 3600 if wanted.since is None else epoch_seconds(wanted.since)
    points = remembered.points(flow.flow, wanted.figure, wanted.topic, begin)
    return steps([point for point in points if point[0] <= end], wanted.step)


@router.get(
    "/flows/{source}/{target}/freshness",
    response_model=schemas.FreshnessDocument,
    dependencies=[READS_TABLES],
)
def freshness(flow: OneFlow, asked: Asked) -> dict[str, Any]:
    """Returns in how many minutes of the last month a flow lagged, and how many are allowed."""
    return asked.freshness(flow)


@router.get(
    "/flows/{source}/{target}/schemas",
    response_model=schemas.RegistriesDocument,
    dependencies=[ASKS_CLUSTERS],
)
def registries(flow: OneFlow, asked: Asked) -> dict[str, Any]:
    """Returns what the target's schema registry lacks, or which ids stand for which."""
    return look_at_schemas(asked.config, flow).document()


@router.get("/events", response_model=schemas.PageDocument[schemas.EventDocument])
async def events(
    known: KnownSnapshots, asked: Asked, query: EventQuery, chosen: Annotated[Chosen, Query()]
) -> dict[str, Any]:
    """Returns the events of all flows, the newest first; waits for one if asked to."""

    def find() -> list[dict[str, Any]]:
        rows = [row for flow in known.flows for row in events_of(known.see(flow), asked)]
        return [row for row in rows if chosen.has(row)]

    until = time.monotonic() + chosen.wait
    rows = await asyncio.to_thread(find)
    while not rows and time.monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        rows = await asyncio.to_thread(find)
    page = page_of(rows, query, _name_of_event, {"at": lambda row: row["at"]})
    return page.answer(dict, time.time())


def events_of(seen: FlowSnapshot, asked: Questions) -> Iterable[dict[str, Any]]:
    """Returns the events of a flow: those of the table, or the last ones that were published."""
    try:
        return asked.events(seen.flow)
    except ReplicationError:
        rows = seen.observation.events if seen.observation else ()
        return [event_answer(seen.flow, row) for row in rows]


def _name_of_event(row: Mapping[str, Any]) -> str:
    details = " ".join(str(value) for value in row["details"].values())
    flow = row["flow"]
    return f"{row['at']} {flow['source']}->{flow['target']} {row['kind']} {details} {row['text']}"


@router.get("/clusters", response_model=list[schemas.ClusterOfFlowsDocument])
def clusters(known: KnownSnapshots, asked: Asked) -> list[dict[str, Any]]:
    """Returns all clusters, and what the owner of each flow says of them."""
    snapshots = [known.see(flow) for flow in known.flows]
    seen = list(clusters_of(snapshots))
    unanswered = {one.flow.target: one.unanswered for one in snapshots if one.unanswered}
    return [
        {
            "name": name,
            "bootstrap_servers": alias_of(asked.config, name),
            "unanswered": unanswered.get(name),
            "seen": [row for other, row in seen if other == name],
        }
        for name in asked.config.clusters
    ]


@router.get("/heartbeats", response_model=list[schemas.HeartbeatDocument])
def heartbeats(known: KnownSnapshots) -> list[dict[str, Any]]:
    """Returns the newest heartbeat of each flow on its target."""
    return [heartbeat_answer(known.see(flow), time.time()) for flow in known.flows]


@router.get("/configuration", response_model=schemas.PageDocument[schemas.SettingDocument])
def configuration(asked: Asked, query: SettingQuery) -> dict[str, Any]:
    """Returns every key of the configuration, as written or by default; secrets are masked."""
    rows = asked.settings()
    by = {"key": lambda row: row["key"], "origin": lambda row: row["origin"]}
    page = page_of(rows, query, lambda row: row["key"], by)
    return page.answer(dict, None)


def _page(
    seen: FlowSnapshot, page: Page[Item], answer: Callable[[Item], dict[str, Any]]
) -> dict[str, Any]:
    as_of = seen.observation.as_of if seen.observation else None
    return page.answer(answer, as_of, is_stale=seen.is_stale)


def _values(*names: str, figures: Iterable[str] = ()) -> dict[str, Callable[[Any], Value]]:
    """Returns what a list can be sorted by: fields of its items by their *names*, and figures."""

    def figure(name: str) -> Callable[[Any], Value]:
        return lambda item: item.figures.get(name)

    return {name: attrgetter(name) for name in names} | {name: figure(name) for name in figures}


def _figure_of_flow(name: str) -> Callable[[FlowSnapshot], Value]:
    def value(seen: FlowSnapshot) -> Value:
        return seen.observation.figures.get(name) if seen.observation else None

    return value


def _no_topic(seen: FlowSnapshot, name: str) -> ProblemError:
    why = seen.text or "it is not one of the topics that the flow replicates now"
    return ProblemError(404, "no-topic", f"nothing is known of the topic {name!r}: {why}")
