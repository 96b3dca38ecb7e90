"""The resources that change something, as ``stop`` and ``accept`` of the command line do."""

from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, BackgroundTasks, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, field_validator

from replication.config.tree import FlowConfig
from replication.errors import ReplicationError
from replication.figures.document import flow_document
from replication.log import Log
from replication.offsets.goals import GOALS, Goal, parse_goal
from replication.serve import schemas
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.problems import ProblemError
from replication.serve.questions import Questions
from replication.serve.security import caller_of

log = Log(__name__)

router = APIRouter(prefix="/api/v1", responses=schemas.PROBLEMS)


class Stop(BaseModel):
    """A request to stop a flow."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field("", max_length=1000)
    dry_run: bool = Field(True, description="Only say what would be done.")


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


@router.post(
    "/flows/{source}/{target}/stop", status_code=202, response_model=schemas.RequestedDocument
)
def stop(
    request: Request, flow: OneFlow, asked: Asked, wanted: Stop, later: BackgroundTasks
) -> dict[str, Any]:
    """Asks the process that runs the flow to stop; needs a token of the role write."""
    name = writer(request)
    asked.begun()
    if not wanted.dry_run:
        reason = _reason(request, name, wanted.reason, "stop", flow)
        later.add_task(_stop, asked, flow, reason, request.app.state.stops)
    return _requested(flow, wanted, {"action": "stop"})


@router.post(
    "/flows/{source}/{target}/accept",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def accept(request: Request, flow: OneFlow, asked: Asked, wanted: Accept) -> dict[str, Any]:
    """Lets a topic go on despite lost or repeated records; needs a token of the role write."""
    name = writer(request)
    planned = asked.acceptance(flow, (wanted.topic, wanted.partition), wanted.start)
    if not wanted.dry_run:
        asked.accept(flow, planned, _reason(request, name, wanted.reason, "accept", flow))
    return _requested(flow, wanted, {"action": "accept", **planned.document()})


@router.post(
    "/flows/{source}/{target}/move",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def move(request: Request, flow: OneFlow, asked: Asked, wanted: MoveOrder) -> dict[str, Any]:
    """Lets partitions go on elsewhere at the next start; needs a token of the role write."""
    return _move(
        request, flow, asked, wanted, ("move", [wanted.topic], wanted.partition, wanted.goal)
    )


@router.post(
    "/flows/{source}/{target}/reset",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def reset(request: Request, flow: OneFlow, asked: Asked, wanted: ResetOrder) -> dict[str, Any]:
    """Lets topics start again as auto.offset.reset says; needs a token of the role write."""
    return _move(request, flow, asked, wanted, ("reset", wanted.topics, None, Goal("reset")))


def _move(
    request: Request,
    flow: FlowConfig,
    asked: Questions,
    wanted: Stop,
    what: tuple[str, list[str], int | None, Goal],
) -> dict[str, Any]:
    name = writer(request)
    action, topics, partition, goal = what
    planned = asked.moves(flow, topics, partition, goal)
    if not wanted.dry_run:
        asked.move(flow, planned, _reason(request, name, wanted.reason, action, flow))
    return _requested(flow, wanted, {"action": action, **planned.document()})


async def _stop(asked: Questions, flow: FlowConfig, reason: str, limiter: CapacityLimiter) -> None:
    try:
        await to_thread.run_sync(asked.stop, flow, reason, limiter=limiter)
    except ReplicationError as error:
        log.bind(flow.flow).warning("requested", action="stop", text=f"not done: {error}")


def writer(request: Request) -> str:
    """Returns the name of whoever sends *request*.

    Raises:
        ProblemError: They may not change anything.
    """
    caller = caller_of(request)
    if caller is None or not caller.may_write:
        raise ProblemError(
            403,
            "read-only",
            "this needs a token of the role write",
            "replication token NAME --role write, and rest.tokens.file",
        )
    return caller.name


def _reason(request: Request, name: str, reason: str, action: str, flow: FlowConfig) -> str:
    """Logs a request of somebody, and returns what the flow's process is told of it."""
    log_request(request, name, reason, action, flow)
    return f"{name} by REST: {reason}".rstrip(": ")


def log_request(request: Request, name: str, reason: str, action: str, flow: FlowConfig) -> None:
    """Logs that *name* asks for *action*, and why."""
    client = request.client.host if request.client else "?"
    log.bind(flow.flow).warning("requested", action=action, by=name, client=client, text=reason)


def _requested(flow: FlowConfig, wanted: Stop, what: dict[str, Any]) -> dict[str, Any]:
    see = f"/api/v1/events?flow={flow.flow}"
    name = flow_document(flow.flow)
    return {"flow": name, "dry_run": wanted.dry_run, "what": what, "see": see}
