"""The page of a sample: what transforms make of the records of a topic, before and after."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from replication.figures.document import flow_document
from replication.serve import samples
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.pages import form_of, render
from replication.serve.problems import ProblemError

router = APIRouter(include_in_schema=False)

_FIELDS = ("topic", "records", "filter", "value")


@router.post("/flows/{source}/{target}/sample", dependencies=[ASKS_CLUSTERS])
async def sample(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows what a transform makes of a topic's newest records; nothing is copied."""
    form = await form_of(request)
    wanted = _wanted(form)
    answer: dict[str, Any] = await run_in_threadpool(
        samples.answer_of, request, flow, asked, wanted
    )
    page = render(
        request,
        "sample",
        flow_name=flow_document(flow.flow),
        wanted=wanted,
        sample=answer,
    )
    page.headers["Cache-Control"] = "no-store"
    return page


def _wanted(form: Mapping[str, str]) -> samples.SampleWish:
    """Returns what the form asks for.

    Raises:
        ProblemError: A field is not as it must be.
    """
    try:
        given = {name: form[name] for name in _FIELDS if form.get(name)}
        return samples.SampleWish.model_validate(given)
    except ValidationError as error:
        text = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise ProblemError(422, "invalid", text) from None
