"""How many requests at a time may ask clusters or read tables.

Each of them holds a thread for as long as a cluster or a disk is silent, and threads are few. What
is answered from memory, and the probes, must never wait for one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"


class ProblemError(Exception):
    """A request that has no answer; the text says why, and what to do.

    Args:
        status: The status of HTTP.
        code: A name for programs.
        text: What is wrong.
        next_step: A command, or what else to do; may be empty.
    """

    def __init__(self, status: int, code: str, text: str, next_step: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.next_step = next_step


def problem_response(
    status: int, code: str, text: str, headers: Mapping[str, str] | None = None, next_step: str = ""
) -> Response:
    """Returns the answer to a request that has none."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": text,
        "next_step": next_step,
    }
    return Response(json.dumps(document), status, dict(headers or {}), MEDIA_TYPE)


AT_ONCE: Final = 8
WAITING: Final = 12
"""Both together, for clusters and for tables, are less than the connections that are served."""


class Bound:
    """Lets `AT_ONCE` requests ask; `WAITING` more wait for their turn, the others are refused."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a turn, which lasts for the block."""
        if self._waiting >= WAITING:
            text = f"{AT_ONCE} requests ask {self._what} already, and {WAITING} wait for a turn"
            raise ProblemError(503, "busy", text, "ask again in some seconds")
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one server, by what is asked."""

    clusters: Bound = field(default_factory=lambda: Bound("clusters"))
    tables: Bound = field(default_factory=lambda: Bound("tables"))


async def _ask_clusters(request: Request) -> AsyncIterator[None]:
    async with request.app.state.bounds.clusters.turn():
        yield


async def _ask_clusters_now(
    request: Request,
    live: Annotated[bool, Query()] = False,  # noqa: FBT002 - a query
) -> AsyncIterator[None]:
    if not live:
        yield
        return
    async with request.app.state.bounds.clusters.turn():
        yield


async def _read_tables(request: Request) -> AsyncIterator[None]:
    async with request.app.state.bounds.tables.turn():
        yield


ASKS_CLUSTERS: Final = Depends(_ask_clusters, scope="function")
ASKS_CLUSTERS_NOW: Final = Depends(_ask_clusters_now, scope="function")
"""For what asks clusters only where the query has ``live=true``."""
READS_TABLES: Final = Depends(_read_tables, scope="function")
"""A request that needs both takes a turn at the clusters first."""
