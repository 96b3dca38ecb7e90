"""Who is answered: the name that was asked for, the caller's token, and what a page may do.

A listener on loopback is no boundary by itself: any page in a browser of this machine can send it
requests, under a name of its own that leads here. So the name is checked first, of every request.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replication.config.metrics_settings import ServeConfig, is_own
from replication.log import Log
from replication.serve.bounds import problem_response
from replication.serve.tokens import Caller, Tokens, find_caller

log = Log(__name__)

COOKIE: Final = "replication-token"
EVERYBODY: Final = Caller("anyone on this machine", "read")
CERTIFIED: Final = Caller("a client certificate", "read")
OPEN: Final = ("/livez", "/readyz", "/login", "/static/")
"""Paths that nobody needs a token for."""

MOST_BYTES: Final = 16_384
SECONDS: Final = 10.0
_SLOWEST: Final = 5.0
_FORGIVEN_AFTER: Final = 60.0
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none, browsers say Origin: null of our own forms
}


class Guard:
    """Answers requests that must not reach *app*, and names the caller of the others.

    Without *tokens* everybody on this machine may read.
    """

    def __init__(self, app: ASGIApp, serve: ServeConfig, tokens: Tokens | None) -> None:
        self._app = app
        self._hosts = {serve.listen, *serve.allowed_hosts}
        self._prefix = serve.prefix
        self._tokens = tokens
        self._unknown = CERTIFIED if serve.client_ca else None if tokens is not None else EVERYBODY
        self._failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path: str = scope["path"]
        if self._prefix and path.startswith(f"{self._prefix}/"):  # the proxy has left it there
            scope = {**scope, "path": path.removeprefix(self._prefix)}
        scope.setdefault("state", {})
        response = self._refuse(scope, headers)
        if response is None:
            scope["state"]["caller"] = caller = await self._caller(scope, headers)
            if caller is None and not scope["path"].startswith(OPEN):
                response = self._unauthorized(scope)
        if response is not None:
            await response(scope, receive, _with_headers(send))
            return
        await self._app(scope, _Bounded(receive), _with_headers(send))

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not is_own(host, self._hosts, takes_addresses=False):
            text = f"this server is not {host!r}; add the name to rest.allowed.hosts"
            return problem_response(421, "misdirected", text)
        if int_or(headers.get("content-length", "0"), MOST_BYTES + 1) > MOST_BYTES:
            text = f"a request may have {MOST_BYTES} bytes"
            return problem_response(413, "too-large", text)
        if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            text = "the request comes from a page of another site"
            return problem_response(403, "cross-site", text)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            text = f"the request comes from a page of {origin}, which is another site"
            return problem_response(403, "cross-site", text)
        return None

    async def _caller(self, scope: Scope, headers: Headers) -> Caller | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = _cookie(headers)
        if self._tokens is None or not secret:
            return self._unknown
        client = (scope.get("client") or ("?",))[0]
        caller = find_caller(self._tokens(), secret.strip())
        if caller is None:
            await self._failures.wait(client)
        return caller or self._unknown

    def _unauthorized(self, scope: Scope) -> Response:
        path: str = scope["path"]
        if path.startswith("/api/") or path in {"/metrics", "/openapi.json"}:
            text = "send a token: Authorization: Bearer TOKEN; `replication token` makes one"
            return problem_response(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        return RedirectResponse(f"{self._prefix}/login?next={quote(path)}", 303)


@dataclass(slots=True)
class Failures:
    """Wrong tokens by address: each is answered later than the one before, and said once."""

    _known: dict[str, tuple[int, float]] = field(default_factory=dict)
    _most: int = 1000

    async def wait(self, client: str) -> None:
        """Counts a wrong token of *client*, and waits."""
        now = time.monotonic()
        count, at = self._known.get(client, (0, now))
        count = 1 if now - at > _FORGIVEN_AFTER else count + 1
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[client] = count, now
        if count == 1:
            log.warning("login_failed", client=client, text="a wrong token was sent; see who asks")
        await asyncio.sleep(min(_SLOWEST, 0.1 * 2 ** min(count, 10)))


class Forms:
    """Tokens that only a page of this server has, so that no other site can send its forms."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token(self, request: Request) -> str:
        """Returns the token for the forms of whoever sends *request*."""
        cookie = _cookie(request.headers)
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_ours(self, request: Request, given: str) -> bool:
        """Returns whether *given* came from one of our pages, shown to the same caller."""
        return hmac.compare_digest(self.token(request).encode(), given.encode())


def caller_of(request: Request) -> Caller | None:
    """Returns who sends *request*, as the guard has found."""
    caller: Caller | None = request.state.caller
    return caller


def int_or(text: str, default: int) -> int:
    """Returns the number that *text* is, *default* if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default  # noqa: PLR2004


class _Bounded:
    """Receives a request's body, which must be neither too large nor too late."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MOST_BYTES
        self._until = time.monotonic() + SECONDS
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:  # what comes now is the end of the connection, at any time
            return await self._receive()
        left = max(0.0, self._until - time.monotonic())
        try:
            message = await asyncio.wait_for(self._receive(), left)
        except asyncio.TimeoutError:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        return message if self._left >= 0 else {"type": "http.disconnect"}


def _with_headers(send: Send) -> Send:
    async def send_all(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-cache")
        await send(message)

    return send_all


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
