"""The forms of pages that change a flow: what that would do, then the change itself."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, BackgroundTasks, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from replication.serve import changes, steer
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.changes import Accept, MoveOrder
from replication.serve.instructions import Stop
from replication.serve.pages import form_of, render
from replication.serve.problems import ProblemError

router = APIRouter(include_in_schema=False)

Wanted = TypeVar("Wanted", bound=Stop)


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
    wanted = _wanted(form)
    return await _shown(request, form, lambda: steer.change(request, flow, asked, wanted))


@router.post("/flows/{source}/{target}/changes/{number}/undo", dependencies=[ASKS_CLUSTERS])
async def undo(request: Request, flow: OneFlow, asked: Asked, number: steer.Number) -> Response:
    """Shows what it would do to take a change back, and does it after it was confirmed."""
    form = await form_of(request)
    wanted = _valid(Stop, _why(form))
    return await _shown(request, form, lambda: steer.undo(request, flow, asked, number, wanted))


async def _shown(
    request: Request, form: Mapping[str, str], answer: Callable[[], dict[str, Any]]
) -> Response:
    """Returns the page that asks to confirm what *answer* says, or says that it was done."""
    found = await run_in_threadpool(answer)
    what = {key: value for key, value in found["what"].items() if value}
    return render(
        request,
        "requested",
        flow_name=found["flow"],
        answer={**found, "what": what},
        form=form,
    )


def _wanted(form: Mapping[str, str]) -> steer.ChangeOrder:
    """Returns what the form asks for.

    Raises:
        ProblemError: A field is not as it must be.
    """
    items = [item.strip() for item in form.get("items", "").split(",")]
    given = {
        "what": form.get("what", ""),
        "items": [item for item in items if item],
        "scope": form.get("scope", "").strip(),
    }
    return _valid(steer.ChangeOrder, {**given, **_why(form)})


def _part(form: Mapping[str, str]) -> dict[str, Any]:
    """Returns the topic of a form, and its partition if it names one."""
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
