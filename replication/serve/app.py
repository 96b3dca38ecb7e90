"""The application: REST, pages, metrics and probes over what was seen of the flows."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replication.config.metrics_settings import ServeConfig
from replication.errors import ReplicationError
from replication.log import Log
from replication.serve import api, changes, pages
from replication.serve.bounds import Bounds, ProblemError, problem_response
from replication.serve.dependencies import CursorError, PagingError
from replication.serve.questions import Questions
from replication.serve.security import Forms, Guard
from replication.serve.snapshots import FlowSnapshots, History
from replication.serve.tokens import Tokens

log = Log(__name__)

STATIC: Final = Path(__file__).parent / "static"
_STATUS: Final = {
    "no-answer": 404,
    "no-schemas": 404,
    "configuration": 422,
    "guard": 409,
    "lease": 409,
}
_REFRESH_SECONDS: Final = 5.0
ROUTERS: Final = (api.router, changes.router, pages.router)
MOST_STOPS: Final = 40
"""Flows that may be stopping at a time; each has a thread until it has stopped."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application answers from.

    *is_ready*: whether what the flows have published was read to its end. *metrics* returns
    Prometheus' page, of the types that a header accepts, and its type.
    """

    snapshots: FlowSnapshots
    questions: Questions
    history: History
    is_ready: Callable[[], bool] = lambda: True
    metrics: Callable[[str], tuple[bytes, str]] = lambda _accept: (b"", "text/plain")


def build_app(parts: Parts, serve: ServeConfig, tokens: Tokens | None, version: str) -> ASGIApp:
    """Returns the application, with the guard before all of it."""
    app = FastAPI(
        title="Kafka replication on Spark",
        version=version,
        description="What is known of the flows of a mirror. Times are in UTC, durations in "
        "seconds, sizes in bytes; null is unknown. Lists have pages: `next` is the cursor of the "
        "one that follows.",
        docs_url=None,
        redoc_url=None,
        lifespan=_refreshing,
    )
    app.state.snapshots = parts.snapshots
    app.state.questions = parts.questions
    app.state.history = parts.history
    app.state.bounds = Bounds()
    app.state.stops = anyio.CapacityLimiter(MOST_STOPS)
    app.state.forms = Forms()
    app.state.prefix = serve.prefix
    app.state.has_tokens = tokens is not None
    app.state.is_secure = bool(serve.certificate)
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _add_probes(app, parts)
    _add_errors(app)
    return Guard(ETags(app), serve, tokens)


def _add_probes(app: FastAPI, parts: Parts) -> None:
    @app.get("/livez", include_in_schema=False)
    async def livez() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        if parts.is_ready():
            return Response("ok\n", media_type="text/plain")
        text = "what the flows have published is still being read\n"
        return Response(text, 503, media_type="text/plain")

    @app.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        body, content_type = parts.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})


def _add_errors(app: FastAPI) -> None:
    """Answers each error in the form that the caller reads: a problem document, or a page."""

    def answer(request: Request, status: int, code: str, text: str, step: str = "") -> Response:
        if pages.wants_page(request):
            return pages.error_page(request, status, text, step)
        return problem_response(status, code, text, next_step=step)

    @app.exception_handler(ProblemError)
    async def problem(request: Request, error: ProblemError) -> Response:
        return answer(request, error.status, error.code, str(error), error.next_step)

    @app.exception_handler(PagingError)
    async def paging(request: Request, error: PagingError) -> Response:
        status = 404 if isinstance(error, CursorError) else 422
        return answer(request, status, "no-page", str(error))

    @app.exception_handler(ReplicationError)
    async def known(request: Request, error: ReplicationError) -> Response:
        return answer(request, _STATUS.get(error.code, 503), error.code, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        parts = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
        return answer(request, 422, "invalid", "; ".join(parts))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        response = answer(request, error.status_code, "http", str(error.detail))
        for name, value in _headers(error, request.scope).items():
            response.headers[name] = value
        return response

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        log.error("serve_failed", path=request.url.path, text=f"{type(error).__name__}: {error}")
        text = "an internal error, which the log of serve has; please report it"
        return answer(request, 500, "internal", text)


def _headers(error: HTTPException, scope: Scope) -> dict[str, str]:
    """Returns the headers of an answer; the framework names the methods of one route alone."""
    headers = dict(error.headers or {})
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return headers
    fitting = (
        route
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
    )
    methods = sorted({method for route in fitting for method in route.methods or ()})
    return {**headers, "Allow": ", ".join(methods)} if methods else headers


@asynccontextmanager
async def _refreshing(app: FastAPI) -> AsyncIterator[None]:
    async def refresh() -> None:
        while True:
            with suppress(ReplicationError):
                await anyio.to_thread.run_sync(app.state.snapshots.refresh)
            await anyio.sleep(_REFRESH_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(refresh)
        yield
        group.cancel_scope.cancel()


class ETags:
    """Names the content of each answer, so that a caller who has it is not sent it again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = dict(scope["headers"]).get(b"if-none-match", b"")
        start: Message = {}
        body = bytearray()

        async def keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            if start["status"] == 200:  # noqa: PLR2004
                _name(start, bytes(body), known)
            is_known = start["status"] == 304  # noqa: PLR2004
            await send(start)
            await send({"type": "http.response.body", "body": b"" if is_known else bytes(body)})

        await self._app(scope, receive, keep)


def _name(start: Message, body: bytes, known: bytes) -> None:
    tag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    headers = [(name, value) for name, value in start["headers"] if name != b"etag"]
    if tag in known:
        start["status"] = 304
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    start["headers"] = [*headers, (b"etag", tag)]
