"""The resources that change something, as ``stop`` and ``accept`` of the command line do."""

from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, BackgroundTasks, Request
from pydantic import Field, StrictInt, StrictStr, field_validator

from replication.config.tree import FlowConfig
from replication.errors import ReplicationError
from replication.log import Log
from replication.offsets.goals import GOALS, Goal, parse_goal
from replication.serve import schemas
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.instructions import Instruction, Stop
from replication.serve.questions import Questions

log = Log(__name__)

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
    given = Instruction(request, flow, wanted)
    action, topics, partition, goal = what
    planned = asked.moves(flow, topics, partition, goal)
    if given.is_due(action):
        asked.move(flow, planned, given.reason)
    return given.answer({"action": action, **planned.document()})


async def _stop(asked: Questions, flow: FlowConfig, reason: str, limiter: CapacityLimiter) -> None:
    try:
        await to_thread.run_sync(asked.stop, flow, reason, limiter=limiter)
    except ReplicationError as error:
        log.bind(flow.flow).warning("requested", action="stop", text=f"not done: {error}")
