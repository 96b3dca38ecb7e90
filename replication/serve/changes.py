"""The resources that change something, as ``stop`` and ``accept`` of the command line do."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, BackgroundTasks, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, field_validator

from replication.config.changes import LONGEST_REASON, MOST_ITEMS, Change, Order
from replication.config.limits import LimitError, parse_limit
from replication.config.tree import FlowConfig
from replication.control.changed import changed, in_force
from replication.control.overrides import (
    FlowOverrides,
    check,
    is_in,
    make,
    new_change,
    open_steered,
    undo_of,
)
from replication.control.sample import MOST_RECORDS
from replication.errors import NoAnswerError, ReplicationError
from replication.foreign_json import to_json
from replication.log import Log
from replication.offsets.moved import GOALS, Goal, parse_goal
from replication.serve import schemas
from replication.serve.bounds import ASKS_CLUSTERS, READS_TABLES, ProblemError
from replication.serve.dependencies import Asked, ChangeQuery, ListQuery, OneFlow, Value, page_of
from replication.serve.questions import Questions
from replication.serve.security import caller_of
from replication.state.readers import is_quick

if TYPE_CHECKING:
    from replication.control.moves import MovePlan

log = Log(__name__)

# An instruction to change a flow: who gives it and why, and what is answered.
#
# All resources that change something begin and end here, so that each asks for the role, says what
# it would do if that is all that is wanted, and logs who has done it.


class Stop(BaseModel):
    """A request to stop a flow; what each other one has, too."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field("", max_length=1000)
    dry_run: bool = Field(True, description="Only say what would be done.")


class Instruction:
    """What somebody wants of a flow; a `ProblemError` if they may not change anything."""

    def __init__(self, request: Request, flow: FlowConfig, wanted: Stop) -> None:
        self.by = writer(request)
        self._request = request
        self._flow = flow
        self._wanted = wanted

    @property
    def reason(self) -> str:
        """Why, as the flow's process is told."""
        return f"{self.by} by REST: {self._wanted.reason}".rstrip(": ")

    def is_due(self, action: str) -> bool:
        """Returns whether *action* is to be done and not only described; logs it then."""
        if self._wanted.dry_run:
            return False
        client = self._request.client.host if self._request.client else "?"
        log.bind(self._flow.flow).warning(
            "requested", action=action, by=self.by, client=client, text=self._wanted.reason
        )
        return True

    def answer(self, what: dict[str, Any], see: str = "") -> dict[str, Any]:
        """Returns the answer: *what* is done, and where what comes of it is to be seen."""
        return {
            "flow": to_json(self._flow.flow),
            "dry_run": self._wanted.dry_run,
            "what": what,
            "see": see or f"/api/v1/events?flow={self._flow.flow}",
        }


def writer(request: Request) -> str:
    """Returns the name of whoever sends *request*."""
    caller = caller_of(request)
    if caller is None or not caller.may_write:
        raise ProblemError(
            403,
            "read-only",
            "this needs a token of the role write",
            "replication token NAME --role write, and rest.tokens.file",
        )
    return caller.name


router = APIRouter(prefix="/api/v1", responses=schemas.PROBLEMS)


class MoveOrder(Stop):
    """A request to let partitions go on elsewhere, as ``move-position`` does."""

    topic: str = Field(min_length=1, max_length=249)
    partition: int | None = Field(None, ge=0, le=2**31 - 1)
    to: StrictStr | StrictInt = Field(description=f"Where to go on: {GOALS}.")

    @field_validator("to")
    @classmethod
    def _states_a_goal(cls, to: str | int) -> str | int:
        parse_goal(str(to))
        return to

    @property
    def goal(self) -> Goal:
        """Where to go on."""
        return parse_goal(str(self.to))


class ResetOrder(Stop):
    """A request to let topics start again, as ``reset-positions`` does."""

    topics: list[str] = Field(min_length=1, max_length=100)


class Accept(Stop):
    """A request to let a topic go on although records are lost or repeated."""

    topic: str = Field(min_length=1, max_length=249)
    partition: int | None = Field(None, ge=0, le=2**31 - 1)
    start: Literal["earliest", "latest"] | Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        alias="from"
    )


class RetryOrder(Stop):
    """A request to try again what a flow has set aside, as ``retry`` does."""

    topic: str = Field("", max_length=249, description="Only this one; all without it.")


@router.post(
    "/flows/{source}/{target}/stop", status_code=202, response_model=schemas.RequestedDocument
)
def stop(
    request: Request, flow: OneFlow, asked: Asked, wanted: Stop, later: BackgroundTasks
) -> dict[str, Any]:
    """Asks the process that runs the flow to stop; needs a token of the role write."""
    given = Instruction(request, flow, wanted)
    asked.begun()
    if given.is_due("stop"):
        later.add_task(_stop, asked, flow, given.reason, request.app.state.stops)
    return given.answer({"action": "stop"})


@router.post(
    "/flows/{source}/{target}/accept",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def accept(request: Request, flow: OneFlow, asked: Asked, wanted: Accept) -> dict[str, Any]:
    """Lets a topic go on despite lost or repeated records; needs a token of the role write."""
    given = Instruction(request, flow, wanted)
    planned = asked.acceptance(flow, (wanted.topic, wanted.partition), wanted.start)
    if given.is_due("accept"):
        asked.accept(flow, planned, given.reason)
    return given.answer({"action": "accept", **planned.document()})


@router.post(
    "/flows/{source}/{target}/retry", status_code=202, response_model=schemas.RequestedDocument
)
def retry(request: Request, flow: OneFlow, asked: Asked, wanted: RetryOrder) -> dict[str, Any]:
    """Lets a running flow try now what it has set aside; needs a token of the role write."""
    given = Instruction(request, flow, wanted)
    asked.begun()
    topics = (wanted.topic,) if wanted.topic else ()
    if given.is_due("retry"):
        asked.retry(flow, topics, given.reason)
    return given.answer({"action": "retry", "topics": list(topics)})


@router.post(
    "/flows/{source}/{target}/move",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def move(request: Request, flow: OneFlow, asked: Asked, wanted: MoveOrder) -> dict[str, Any]:
    """Lets partitions go on elsewhere at the next start; needs a token of the role write."""
    given = Instruction(request, flow, wanted)
    planned = asked.moves(flow, [wanted.topic], wanted.partition, wanted.goal)
    return _move(given, "move", asked, flow, planned)


@router.post(
    "/flows/{source}/{target}/reset",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def reset(request: Request, flow: OneFlow, asked: Asked, wanted: ResetOrder) -> dict[str, Any]:
    """Lets topics start again as auto.offset.reset says; needs a token of the role write."""
    given = Instruction(request, flow, wanted)
    planned = asked.moves(flow, wanted.topics, None, Goal("reset"))
    return _move(given, "reset", asked, flow, planned)


def _move(
    given: Instruction, action: str, asked: Questions, flow: FlowConfig, planned: "MovePlan"
) -> dict[str, Any]:
    if given.is_due(action):
        asked.move(flow, planned, given.reason)
    return given.answer({"action": action, **planned.document()})


async def _stop(asked: Questions, flow: FlowConfig, reason: str, limiter: CapacityLimiter) -> None:
    try:
        await to_thread.run_sync(asked.stop, flow, reason, limiter=limiter)
    except ReplicationError as error:
        log.bind(flow.flow).warning("requested", action="stop", text=f"not done: {error}")


# What transforms make of records, for whoever may write: the content of records is confidential.
#
# Spark evaluates it, which `serve` does not need otherwise. So the command ``transform`` answers,
# in a process of its own that ends with the answer; one at a time. Nothing of an answer is kept or
# logged, and no cache on the way may keep it.

SECONDS: Final = 180.0
"""For Spark's start and two evaluations."""

_STATUS: Final = {"no-answer": 404, "configuration": 422}
_PARTS: Final = ("filter", "key", "value", "headers", "unknown")
_DOCUMENT: Final = re.compile(rb"^\{.*\}$", re.MULTILINE | re.DOTALL)
_ONE_AT_A_TIME: Final = threading.Lock()


class SampleQuery(BaseModel):
    """The newest records of a topic, and a transform to try on them; none is the file's alone."""

    model_config = ConfigDict(extra="forbid")
    topic: str = Field(min_length=1, max_length=249)
    records: int = Field(20, ge=1, le=MOST_RECORDS)
    filter: str = Field("", max_length=8000, description="SQL: which records are copied.")
    key: str = Field("", max_length=8000, description="SQL: the key of the copy.")
    value: str = Field("", max_length=8000, description="SQL: the value of the copy.")
    headers: str = Field("", max_length=8000, description="SQL: the headers of the copy.")
    add_headers: dict[str, str] = Field(default_factory=dict, description="Name: SQL.")
    remove_headers: list[str] = Field(default_factory=list)
    unknown: str = Field("", pattern="^(|fail|drop|keep)$")
    nullable: bool = False


@router.post("/flows/{source}/{target}/sample", dependencies=[ASKS_CLUSTERS])
def sample(
    request: Request, response: Response, flow: OneFlow, asked: Asked, wanted: SampleQuery
) -> dict[str, Any]:
    """Shows records before and after transforms, with content; needs a token of the role write."""
    response.headers["Cache-Control"] = "no-store"
    return answer_of(request, flow, asked, wanted)


def answer_of(
    request: Request, flow: FlowConfig, asked: Questions, wanted: SampleQuery
) -> dict[str, Any]:
    """Returns what the command prints as JSON, for whoever may write."""
    name = writer(request)
    log.bind(flow.flow).warning("requested", action="sample", by=name, topic=wanted.topic)
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise ProblemError(503, "busy", "another sample is taken", "ask again in some seconds")
    command = [sys.executable, "-m", "replication", "transform", asked.config.file]
    command += [f"--flow={flow.flow}", "--json", *_options(wanted)]
    try:
        ended = subprocess.run(  # noqa: S603 - no shell, and each value belongs to its option
            command, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        text = f"no answer within {SECONDS:.0f} s"
        raise ProblemError(503, "busy", text, "ask for fewer records") from None
    finally:
        _ONE_AT_A_TIME.release()
    if ended.stdout:
        return dict(json.loads(ended.stdout))
    error = _DOCUMENT.search(ended.stderr)
    if error is None:
        text = "the command transform gave no answer; is Spark installed on this machine?"
        raise ProblemError(503, "setup", text, "run it here by hand")
    found = json.loads(error[0])
    raise ProblemError(_STATUS.get(found["code"], 503), found["code"], found["text"])


def _options(wanted: SampleQuery) -> Iterator[str]:
    yield f"--topic={wanted.topic}"
    yield f"--sample={wanted.records}"
    given = wanted.model_dump()
    yield from (f"--{part}={given[part]}" for part in _PARTS if given[part])
    yield from (f"--add-header={name}={sql}" for name, sql in wanted.add_headers.items())
    yield from (f"--remove-header={name}" for name in wanted.remove_headers)
    if wanted.nullable:
        yield "--nullable"


# Changes of a flow while it runs: their history, a new one, and taking one back.
#
# A change needs no process and no cluster, as with the commands: where a cluster does not answer,
# the answer says what is not known.

ORDERS: Final[tuple[Order, ...]] = get_args(Order)

SHOWN: Final = 20
"""Changes that the page of a flow shows."""

_LONGEST_NAME: Final = 500
"""Of what a change is found and sorted by."""

Number = Annotated[
    str,
    Path(
        pattern="^[0-9]{1,10}(-[0-9a-f]{1,32})?$",
        description="Of the change; with a - and the begin of its id where two have one number.",
    ),
]


class ChangeOrder(Stop):
    """A request to change a flow while it runs, as the commands do."""

    what: Order
    items: list[str] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Names or regexes; of a pause also clicks:3, and none is the whole flow; of a "
        "hold the name of an operation; of a limit bytes=20MB and records=5000, or none.",
    )
    scope: str = Field("", max_length=LONGEST_REASON, description="The topics of a limit.")
    anyway: bool = Field(
        False, description="Also pause or limit a topic that the flow does not copy yet."
    )


@router.get(
    "/flows/{source}/{target}/changes",
    response_model=schemas.ChangePageDocument,
    dependencies=[READS_TABLES],
)
def changes(flow: OneFlow, asked: Asked, query: ChangeQuery) -> dict[str, Any]:
    """Returns who has changed a flow while it ran, when and why; the newest first."""
    return _history(asked, flow, query)


@router.post(
    "/flows/{source}/{target}/changes",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def change(request: Request, flow: OneFlow, asked: Asked, wanted: ChangeOrder) -> dict[str, Any]:
    """Changes lists, pauses or limits of a running flow; needs a token of the role write."""

    def new(steered: FlowOverrides) -> Change:
        try:
            is_limit = wanted.what == "limit"
            items = parse_limit(wanted.items).items if is_limit else wanted.items
            return new_change(
                steered.flow, wanted.what, tuple(items), scope=wanted.scope, reason=wanted.reason
            )
        except LimitError as error:
            raise ProblemError(422, "configuration", str(error)) from None

    return _carry_out(request, flow, asked, wanted, new, anyway=wanted.anyway)


@router.post(
    "/flows/{source}/{target}/changes/{number}/undo",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def undo(
    request: Request, flow: OneFlow, asked: Asked, number: Number, wanted: Stop
) -> dict[str, Any]:
    """Takes a change back, as if it had not been made; needs a token of the role write."""
    return _carry_out(
        request, flow, asked, wanted, lambda steered: undo_of(steered, number, wanted.reason)
    )


def newest(asked: Questions, flow: FlowConfig) -> dict[str, Any]:
    """Returns the newest changes for the page of a flow, which is shown whatever becomes of them.

    What needs Java is left to whoever asks for the history itself.
    """
    nothing: dict[str, Any] = {"items": [], "total": 0}
    if not is_quick(asked.config.access):
        text = "what was changed is out of reach without Java; the command history shows it"
        return {**nothing, "problems": [text]}
    try:
        return _history(asked, flow, ListQuery(limit=SHOWN, sort="-number"))
    except ReplicationError as error:
        return {**nothing, "problems": [str(error)]}


def _history(asked: Questions, flow: FlowConfig, query: ListQuery) -> dict[str, Any]:
    values: dict[str, Callable[[Change], Value]] = {
        "number": lambda change: float(change.number),
        "at": lambda change: change.at,
    }
    with open_steered(asked.config, flow) as steered:
        applied = steered.changes.applied()

        def document(change: Change) -> dict[str, Any]:
            found = changed(change)
            del found["flow"]
            return {
                **found,
                "text": change.text,
                "state": steered.steering.state_of(change, steered.configured),
                "followed": applied is not None and is_in(change, applied),
            }

        page = page_of(steered.steering.changes, query, _name_of, values)
        unread = steered.changes.unread
        return {
            **page.answer(document, time.time()),
            "problems": [
                *_doubts(asked),
                *(f"{path} counts as absent: {each.text}" for path, each in unread.items()),
            ],
        }


def _name_of(change: Change) -> str:
    return f"{change.name} {change.text} {change.by}"[:_LONGEST_NAME]


def _doubts(asked: Questions) -> list[str]:
    """Returns why the state directory may not be that of the flow's process."""
    try:
        asked.begun()
    except NoAnswerError as error:
        return [str(error)]
    return []


def _carry_out(
    request: Request,
    flow: FlowConfig,
    asked: Questions,
    wanted: Stop,
    new: Callable[[FlowOverrides], Change],
    *,
    anyway: bool = False,
) -> dict[str, Any]:
    given = Instruction(request, flow, wanted)
    # Imported here because it imports Spark, which a server does not start
    from replication.control.preview import preview  # noqa: PLC0415

    with open_steered(asked.config, flow) as steered:
        change = replace(new(steered), by=given.by)
        check(steered, change)
        effect = preview(
            in_force(asked.config), steered, change, may_start_spark=False, anyway=anyway
        )
        doubts = _doubts(asked)  # before the change, which makes a folder
        made: Change | None = None
        others: list[Change] = []
        if given.is_due(change.what):
            made, others = make(steered, change)
    shown = made or change
    what = {
        "action": shown.what,
        "change": shown.text,
        "items": list(shown.items),
        "scope": shown.scope,
        **({"number": shown.number, "id": shown.id} if shown.id else {}),
        "at_the_same_time": [f"{each.number}: {each.text}, by {each.origin}" for each in others],
        **to_json(effect),
        "warnings": [*effect.warnings, *doubts],
    }
    source, target = quote(flow.flow.source, safe=""), quote(flow.flow.target, safe="")
    return given.answer(what, f"/api/v1/flows/{source}/{target}/changes")
