"""A small HTTP server: some pages to read, each of them made by a callable.

It is for one machine or a closed network: no TLS, no password, nothing to write. A caller costs a
thread for at most ten seconds, and there are at most fifty of them.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

from replication.log import Log

log = Log(__name__)

MOST_CONNECTIONS: Final = 50
REQUEST_SECONDS: Final = 10.0
"""For all of a request and its answer."""

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a page answers."""

    body: bytes
    content_type: str = TEXT
    status: int = HTTPStatus.OK


Page = Callable[[str], Reply]
"""Makes the answer for the header Accept."""


class HttpServer(ThreadingHTTPServer):
    """Serves pages at an address.

    Args:
        address: An IP address, or ``localhost``.
        port: 0 for any free one.
        pages: By path.
        is_own: Whether a header Host is a name of this server.

    Raises:
        OSError: Nothing can listen there.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, address: str, port: int, pages: Mapping[str, Page], is_own: Callable[[str], bool]
    ) -> None:
        host = "127.0.0.1" if address == "localhost" else address
        if isinstance(ipaddress.ip_address(host), ipaddress.IPv6Address):
            self.address_family = socket.AF_INET6
        self.pages = pages
        self.is_own = is_own
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Binds without asking for the machine's name, which may take long."""
        TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Gives the request a thread, or refuses it."""
        with self._lock:
            is_full = len(self._open) >= MOST_CONNECTIONS
            if not is_full:
                self._open[request] = time.monotonic() + REQUEST_SECONDS
        if not is_full:
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.setblocking(False)  # the loop waits for nobody
            request.send(_FULL)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as there
        """Ends a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Ends connections that take too long; the loop calls it twice a second."""
        now = time.monotonic()
        with self._lock:
            late = [one for one, until in self._open.items() if now > until]
        for connection in late:
            with suppress(OSError):  # its thread may have closed it
                connection.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: whoever asked has gone, or sent no HTTP."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpServer
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        self._answer(self._found())

    do_HEAD = do_GET  # noqa: N815 - the library's names

    def _found(self) -> Reply:
        path = self.path.partition("?")[0]
        if not self.server.is_own(self.headers.get("Host", "")):
            text = (
                "this server has no such name; write it in rest.allowed.hosts of the "
                "configuration, or ask by address\n"
            )
            return Reply(text.encode(), status=HTTPStatus.MISDIRECTED_REQUEST)
        if (page := self.server.pages.get(path)) is None:
            text = f"here are {', '.join(sorted(self.server.pages))}\n"
            return Reply(text.encode(), status=HTTPStatus.NOT_FOUND)
        try:
            return page(self.headers.get("Accept", ""))
        except Exception:  # the thread's edge: replication goes on
            log.exception("internal_error", thread="metrics", text=f"{path} failed")
            return Reply(b"internal error, see the log\n", status=500)

    def _answer(self, answer: Reply) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "replication"

    def log_message(self, *_: object) -> None:
        """Logs nothing: a probe every few seconds would hide the rest."""
