"""What the schema registries of a flow hold, by REST and as a page; each is asked now."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from replication.control.schemas import look_at_schemas
from replication.serve import schemas
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.pages import render

router = APIRouter()


@router.get(
    "/api/v1/flows/{source}/{target}/schemas",
    response_model=schemas.RegistriesDocument,
    responses=schemas.PROBLEMS,
    dependencies=[ASKS_CLUSTERS],
)
def registries(flow: OneFlow, asked: Asked) -> dict[str, Any]:
    """Returns what the target's schema registry lacks, or which ids stand for which."""
    return look_at_schemas(asked.config, flow).document()


@router.get(
    "/flows/{source}/{target}/schemas", dependencies=[ASKS_CLUSTERS], include_in_schema=False
)
def page(request: Request, flow: OneFlow, asked: Asked) -> Response:
    """Shows the same."""
    return render(request, "schemas", look=registries(flow, asked))
