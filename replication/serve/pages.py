"""The pages: what REST answers, as HTML that needs no script.

A page never computes a figure. It asks the same functions as REST, so both show the same.
"""

import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, BackgroundTasks, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from replication.control.flow_answers import next_step_of
from replication.figures.observation import ENDED, TopicState, text_of
from replication.figures.registry import BY_NAME
from replication.foreign_json import to_json
from replication.serve import api, changes, formats, sentences
from replication.serve.answers import flow_answer
from replication.serve.bounds import ASKS_CLUSTERS, ASKS_CLUSTERS_NOW, READS_TABLES, ProblemError
from replication.serve.changes import Accept, MoveOrder, RetryOrder, Stop
from replication.serve.charts import Line, chart, short, sparkline
from replication.serve.dependencies import (
    Asked,
    Chosen,
    ConditionQuery,
    EventQuery,
    GroupPartitionQuery,
    GroupQuery,
    KnownSnapshots,
    OneFlow,
    OneGroup,
    OneSeen,
    PartitionQuery,
    Remembered,
    SettingQuery,
    TopicQuery,
    page_of,
)
from replication.serve.flow_map import Way, flow_map
from replication.serve.security import COOKIE, caller_of
from replication.serve.snapshots import FlowSnapshot, History


def is_rows(value: object) -> bool:
    """Returns whether *value* is a list of things with names, which a page shows as a table."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


Wanted = TypeVar("Wanted", bound=BaseModel)

router = APIRouter(include_in_schema=False)

TEMPLATES: Final = Path(__file__).parent / "templates"
RANGES: Final = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
DAY: Final = 86_400.0
_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

Events = Annotated[Chosen, Query()]
Range = Annotated[str, Query(alias="range", pattern="^(15m|1h|6h|24h|7d)$")]


_environment.filters |= {
    "about": formats.about,
    "ago": formats.ago,
    "by_tone": sentences.by_tone,
    "counted": formats.counted,
    "cut": formats.cut,
    "headline": sentences.headline,
    "kinds": sentences.kinds,
    "moment": formats.moment,
    "next_step": next_step_of,
    "number": formats.number,
    "rate": formats.rate,
    "sentence": sentences.sentence,
    "short": short,
    "sign": sentences.SIGNS.__getitem__,
    "size": formats.size,
    "span": formats.span,
    "stamp": formats.stamp,
    "tone": sentences.tone,
    "segment": lambda text: quote(text, safe=""),
    "group_path": lambda text: f"?name={text}" if text in {".", ".."} else quote(text, safe=""),
    "path": quote,
}
_environment.tests["rows"] = is_rows
_environment.globals |= {"figures": BY_NAME, "states": get_args(TopicState)}


def wants_page(request: Request) -> bool:
    """Returns whether *request* is of a person: a page, not a resource."""
    path = request.scope["path"]
    return not path.startswith(("/api/", "/metrics", "/openapi.json", "/livez", "/readyz"))


def render(request: Request, name: str, status: int = 200, **values: object) -> Response:
    """Returns the page *name*, with what all pages have in common."""
    caller = caller_of(request)
    state = request.app.state
    common = {
        "base": state.prefix,
        "path": request.scope["path"],
        "query": dict(request.query_params),
        "now": text_of(time.time()),
        "caller": caller,
        "may_write": caller is not None and caller.may_write,
        "has_tokens": state.has_tokens,
        "form_token": state.forms.token(request),
        "as_of": None,
        "is_stale": False,
    }
    text = _environment.get_template(f"{name}.html").render({**common, **values})
    return HTMLResponse(text, status)


def _is_unheard(seen: FlowSnapshot) -> bool:
    """Returns whether a flow should be heard and is not: one that has ended says no more."""
    return seen.is_stale and seen.state not in ENDED


def error_page(request: Request, status: int, text: str, step: str) -> Response:
    """Returns a page that says what is wrong."""
    return render(request, "error", status, title="Error", text=text, next_step=step)


@router.get("/", dependencies=[READS_TABLES])
def overview(request: Request, known: KnownSnapshots, remembered: Remembered) -> Response:
    """Shows all flows."""
    snapshots = [known.see(flow) for flow in known.flows]
    flows = [flow_answer(seen) for seen in snapshots]
    since = time.time() - DAY
    sparks = [
        sparkline(remembered.points(seen.flow, "lag_seconds", None, since), "lag of 24 hours")
        for seen in snapshots
    ]
    ages = [flow["as_of"] for flow in flows if not flow["stale"]]  # the others say their own
    return render(
        request,
        "overview",
        flows=flows,
        figured=list(zip(flows, sparks, strict=True)),
        drawn=flow_map([_way(flow, request.app.state.prefix) for flow in flows]),
        as_of=min(ages, default=None),
    )


def _way(flow: Mapping[str, Any], base: str) -> Way:
    source, target = flow["flow"]["source"], flow["flow"]["target"]
    return Way(
        source,
        target,
        sentences.tone(flow),
        None if flow["stale"] else flow["figures"]["records_per_second"],
        f"{source}→{target}: {sentences.sentence(flow)}",
        f"{base}/flows/{quote(source, safe='')}/{quote(target, safe='')}",
    )


@router.get("/flows/{source}/{target}", dependencies=[READS_TABLES])
def flow(
    request: Request,
    seen: OneSeen,
    asked: Asked,
    flow: OneFlow,
    remembered: Remembered,
    query: TopicQuery,
    state: TopicState | Literal[""] = "",  # a form sends a field without a value as well
    span: Range = "1h",
) -> Response:
    """Shows one flow: its figures over time, its topics, what was changed of it."""
    answer = api.topics(seen, query, state or None)
    known = flow_answer(seen)
    return render(
        request,
        "flow",
        flow=known,
        freshness=api.freshness(flow, asked),
        topics=answer,
        list_query=query,
        state=state,
        span=span,
        ranges=RANGES,
        charts=charts_of(remembered, seen, None, RANGES[span]),
        changes=changes.newest(asked, flow),
        orders=changes.ORDERS,
        partitions=known["labelled"].get("partitions", {}),
        has_schemas=flow.schemas.mode != "none",
        as_of=known["as_of"],
    )


@router.get("/flows/{source}/{target}/conditions")
def conditions(request: Request, seen: OneSeen, query: ConditionQuery) -> Response:
    """Shows all conditions of a flow, of which its own page has the first of each kind."""
    known = flow_answer(seen)
    rows = [{"place": place, **row} for place, row in enumerate(known["conditions"])]
    by = {name: itemgetter(name) for name in ("place", "code", "topic", "since")}
    named = itemgetter("code", "topic", "text", "place")
    found = page_of(rows, query, lambda row: " ".join(map(str, named(row))), by)
    return render(
        request,
        "conditions",
        flow=known,
        conditions=found.answer(dict, None),
        list_query=query,
        as_of=known["as_of"],
        is_stale=_is_unheard(seen),
    )


@router.get(
    "/flows/{source}/{target}/topics/{topic}", dependencies=[ASKS_CLUSTERS_NOW, READS_TABLES]
)
def topic(
    request: Request,
    seen: OneSeen,
    asked: Asked,
    remembered: Remembered,
    topic: str,
    query: PartitionQuery,
    flow: OneFlow,
    live: bool = False,  # noqa: FBT001, FBT002
    span: Range = "1h",
) -> Response:
    """Shows one topic and its partitions."""
    found = api.topic(seen, topic)
    partitions = api.partitions(seen, flow, asked, topic, query, live=live)
    return render(
        request,
        "topic",
        flow=flow_answer(seen),
        topic=found,
        partitions=partitions,
        list_query=query,
        live=live,
        span=span,
        ranges=RANGES,
        charts=charts_of(remembered, seen, found["topic"], RANGES[span]),
        as_of=partitions["as_of"],
        is_stale=_is_unheard(seen),
    )


@router.get("/flows/{source}/{target}/groups")
def groups(request: Request, seen: OneSeen, query: GroupQuery) -> Response:
    """Shows the consumer groups of a flow."""
    answer = api.groups(seen, query)
    return render(
        request,
        "groups",
        flow=flow_answer(seen),
        groups=answer,
        list_query=query,
        as_of=answer["as_of"],
        is_stale=_is_unheard(seen),
    )


@router.get("/flows/{source}/{target}/groups/{group:path}", dependencies=[ASKS_CLUSTERS])
def group(
    request: Request,
    seen: OneSeen,
    flow: OneFlow,
    asked: Asked,
    group: OneGroup,
    query: GroupPartitionQuery,
) -> Response:
    """Shows where a group is on both clusters, which are asked now."""
    answer = api.group(flow, asked, group, query)
    published = seen.observation.groups if seen.observation else ()
    own = next((each for each in published if each.group == group), None)
    return render(
        request,
        "group",
        flow=flow_answer(seen),
        group=group,
        own=own.figures if own else {},
        partitions=answer,
        list_query=query,
        as_of=answer["as_of"],
    )


@router.get("/flows/{source}/{target}/schemas", dependencies=[ASKS_CLUSTERS])
def registries(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what the schema registries of a flow hold."""
    return render(request, "schemas", look=api.registries(flow, asked))


@router.get("/events")
async def events(
    request: Request, known: KnownSnapshots, asked: Asked, query: EventQuery, chosen: Events
) -> Response:
    """Shows the events of all flows."""
    answer = await api.events(known, asked, query, chosen)
    return render(
        request,
        "events",
        events=answer,
        list_query=query,
        chosen=chosen,
        flows=[str(each) for each in known.flows],
        as_of=answer["as_of"],
    )


@router.get("/clusters")
def clusters(request: Request, known: KnownSnapshots, asked: Asked) -> Response:
    """Shows the clusters and the heartbeats between them."""
    beats = api.heartbeats(known)
    return render(request, "clusters", clusters=api.clusters(known, asked), heartbeats=beats)


@router.get("/configuration")
def configuration(request: Request, asked: Asked, query: SettingQuery) -> Response:
    """Shows every key."""
    return render(
        request, "configuration", settings=api.configuration(asked, query), list_query=query
    )


@router.get("/api")
def reference(request: Request) -> Response:
    """Shows what REST answers, from its own description."""
    return render(request, "api", document=request.app.openapi())


@router.get("/login")
def login(request: Request, to: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Asks for a token."""
    return render(request, "login", to=_local(to), is_wrong=False)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Keeps a token in a cookie that no script can read, if it is one."""
    form = await form_of(request)
    state, token = request.app.state, form.get("token", "")
    response = RedirectResponse(f"{state.prefix}{_local(form.get('next', '/'))}", 303)
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(DAY) // 2,
        path=state.prefix or "/",
        secure=state.is_secure or request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/logout")
def log_out(request: Request) -> Response:
    """Forgets the token."""
    prefix = request.app.state.prefix
    response = RedirectResponse(f"{prefix}/login", 303)
    response.delete_cookie(COOKIE, path=prefix or "/")
    return response


def charts_of(
    remembered: History, seen: FlowSnapshot, topic: str | None, seconds: int
) -> list[Any]:
    """Returns the charts of a flow or topic: title, SVG, and the numbers as a table."""
    since = time.time() - seconds

    def line(name: str, figure: str) -> Line:
        return Line(name, tuple(remembered.points(seen.flow, figure, topic, since)))

    wanted = [
        ("Lag", "s", [line("lag", "lag_seconds")]),
        ("Rate", "records/s", [line("copied", "records_per_second")]),
    ]
    if topic is None:
        names = (("p50", "latency_p50"), ("p99", "latency_p99"), ("max", "latency_max"))
        wanted.append(("Latency", "s", [line(name, figure) for name, figure in names]))
    return [
        {
            "title": title,
            "unit": "" if unit == "s" else unit,
            "names": [each.name for each in lines],
            "svg": chart(lines, title, unit, time.time()),
            "written": formats.span if unit == "s" else formats.number,
            "rows": _rows(lines),
        }
        for title, unit, lines in wanted
    ]


def _rows(lines: list[Line]) -> list[tuple[str, list[float | None]]]:
    """Returns the numbers of a chart by time, the newest first; at most 50."""
    by_time: dict[float, dict[str, float | None]] = {}
    for each in lines:
        for at, value in each.points:
            by_time.setdefault(at, {})[each.name] = value
    newest = sorted(by_time, reverse=True)[:50]
    return [(text_of(at), [by_time[at].get(each.name) for each in lines]) for at in newest]


async def form_of(request: Request) -> Mapping[str, str]:
    """Returns the fields of a form that one of our pages has sent."""
    body = await request.body()
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ProblemError(422, "invalid", "the form cannot be read") from None
    form = {name: values[-1] for name, values in fields.items()}
    if not request.app.state.forms.is_ours(request, form.get("form_token", "")):
        text = "the form is not of this server, or it has been started again since"
        raise ProblemError(403, "cross-site", text, "reload the page, and send the form again")
    return form


def _local(path: str) -> str:
    """Returns *path* if it leads to this server, else the first page."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_ours else "/"


_FIELDS = ("topic", "records", "filter", "value")


@router.post("/flows/{source}/{target}/sample", dependencies=[ASKS_CLUSTERS])
async def sample(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what a transform makes of a topic's newest records; nothing is copied."""
    form = await form_of(request)
    given = {name: form[name] for name in _FIELDS if form.get(name)}
    wanted = _valid(changes.SampleQuery, given)
    answer: dict[str, Any] = await run_in_threadpool(
        changes.answer_of, request, flow, asked, wanted
    )
    name = to_json(flow.flow)
    page = render(request, "sample", flow_name=name, wanted=wanted, sample=answer)
    page.headers["Cache-Control"] = "no-store"
    return page


# The forms of pages that change a flow: what that would do, then the change itself.


@router.post("/flows/{source}/{target}/stop")
async def stop(request: Request, flow: OneFlow, asked: Asked, later: BackgroundTasks) -> Response:
    """Asks the process that runs the flow to stop, after it was confirmed."""
    form = await form_of(request)
    wanted = _valid(Stop, _why(form))
    page = await _shown(request, form, lambda: changes.stop(request, flow, asked, wanted, later))
    page.background = later
    return page


@router.post("/flows/{source}/{target}/accept", dependencies=[ASKS_CLUSTERS])
async def accept(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what is lost and repeated if a topic goes on, and lets it after it was confirmed."""
    form = await form_of(request)
    wanted = _valid(Accept, {**_part(form), "from": form.get("from", ""), **_why(form)})
    return await _shown(request, form, lambda: changes.accept(request, flow, asked, wanted))


@router.post("/flows/{source}/{target}/retry")
async def retry(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Asks the process that runs the flow to try a topic again, after it was confirmed."""
    form = await form_of(request)
    wanted = _valid(RetryOrder, {"topic": form.get("topic", ""), **_why(form)})
    return await _shown(request, form, lambda: changes.retry(request, flow, asked, wanted))


@router.post("/flows/{source}/{target}/move", dependencies=[ASKS_CLUSTERS])
async def move(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what is left out or copied again if partitions go on elsewhere, and moves them then."""
    form = await form_of(request)
    wanted = _valid(MoveOrder, {**_part(form), "to": form.get("to", "").strip(), **_why(form)})
    return await _shown(request, form, lambda: changes.move(request, flow, asked, wanted))


@router.post("/flows/{source}/{target}/changes", dependencies=[ASKS_CLUSTERS])
async def change(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what a change would do, and makes it after it was confirmed."""
    form = await form_of(request)
    items = [item.strip() for item in form.get("items", "").split(",")]
    given = {
        "what": form.get("what", ""),
        "items": [item for item in items if item],
        "scope": form.get("scope", "").strip(),
        "anyway": "anyway" in form,
    }
    wanted = _valid(changes.ChangeOrder, {**given, **_why(form)})
    return await _shown(request, form, lambda: changes.change(request, flow, asked, wanted))


@router.post("/flows/{source}/{target}/changes/{number}/undo", dependencies=[ASKS_CLUSTERS])
async def undo(request: Request, flow: OneFlow, asked: Asked, number: changes.Number) -> Response:
    """Shows what it would do to take a change back, and does it after it was confirmed."""
    form = await form_of(request)
    wanted = _valid(Stop, _why(form))
    return await _shown(request, form, lambda: changes.undo(request, flow, asked, number, wanted))


async def _shown(
    request: Request, form: Mapping[str, str], answer: Callable[[], dict[str, Any]]
) -> Response:
    found = await run_in_threadpool(answer)
    what = {key: value for key, value in found["what"].items() if value}
    answered = {**found, "what": what}
    return render(request, "requested", flow_name=found["flow"], answer=answered, form=form)


def _part(form: Mapping[str, str]) -> dict[str, Any]:
    partition = form.get("partition", "").strip()
    return {"topic": form.get("topic", ""), "partition": partition or None}


def _why(form: Mapping[str, str]) -> dict[str, Any]:
    return {"reason": form.get("reason", ""), "dry_run": form.get("confirmed") != "yes"}


def _valid(kind: type[Wanted], given: Mapping[str, Any]) -> Wanted:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        text = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise ProblemError(422, "invalid", text) from None
