"""A small HTTP server: some pages to read, each of them made by a callable.

It is for one machine or a closed network: no TLS, no password, nothing to write. A caller costs a
thread for at most ten seconds, and there are at most fifty of them.
"""

import ipaddress
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final, Protocol

from replication.config.metrics_settings import MetricsConfig, is_loopback, is_own
from replication.figures.observation import ENDED, FlowState, Observation, document
from replication.flows.flow_metrics import FlowMetrics
from replication.log import Log
from replication.metrics.collector import MetricsPage
from replication.metrics.limits import Limits
from replication.model import Flow

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
    """Serves *pages*, by path, at an IP address or ``localhost``; port 0 is any free one.

    *is_own* tells whether a header Host is a name of this server. An `OSError` if nothing can
    listen there.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: str,
        port: int,
        pages: Mapping[str, Page],
        is_own: Callable[[str], bool],
        answered: Callable[[str, str], None] = lambda _path, _host: None,
    ) -> None:
        host = "127.0.0.1" if address == "localhost" else address
        if isinstance(ipaddress.ip_address(host), ipaddress.IPv6Address):
            self.address_family = socket.AF_INET6
        self.pages = pages
        self.is_own = is_own
        self.answered = answered
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
        self.server.answered(self.path.partition("?")[0], self.client_address[0])

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


# Whether the loops of a process turn, for whoever starts a process again that hangs.
#
# What waits for a cluster does not hang: a new start would wait as well. So a loop is watched only
# while it should turn often, and not while its clusters are silent.

LONGEST_TURN: Final = 60.0
"""In seconds. A loop that attends running queries turns several times a second."""


class Answering(Protocol):
    """What knows of the clusters of a flow."""

    @property
    def are_answering(self) -> bool:
        """Whether both clusters answer."""


class Liveness:
    """The loops of one process.

    *ask* asks what the main loop depends on, the driver's JVM; it returns only with an answer.
    """

    def __init__(self, ask: Callable[[], object] = lambda: None) -> None:
        self._ask = ask
        self._turned_at: float | None = None
        self._flows: dict[Flow, tuple[FlowMetrics, Answering]] = {}

    def watch(self, flow: Flow, flow_metrics: FlowMetrics, clusters: Answering) -> None:
        """Watches the loop of *flow* as well."""
        self._flows[flow] = (flow_metrics, clusters)

    def turn(self) -> None:
        """Notes that the main loop turns; it will turn again within a few seconds."""
        self._turned_at = self._turned_at or time.monotonic()
        self._ask()
        self._turned_at = time.monotonic()

    def rest(self) -> None:
        """Notes that the main loop is left: what follows may take long, such as Spark's start."""
        self._turned_at = None

    def find_hung(self) -> list[str]:
        """Returns what does not turn any more, a line each; empty if the process lives."""
        hung = [_line("the process", self._turned_at)]
        for flow, (flow_metrics, clusters) in self._flows.items():
            if clusters.are_answering:
                hung.append(_line(f"the flow {flow}", flow_metrics.turned_at))
        return [line for line in hung if line]


def _line(what: str, turned_at: float | None) -> str:
    seconds = 0.0 if turned_at is None else time.monotonic() - turned_at
    if seconds <= LONGEST_TURN:
        return ""
    return f"the loop of {what} has not turned for {seconds:.0f} s"


# What the driver tells over HTTP: its figures, and whether it lives.
#
# ``/metrics`` is for Prometheus, ``/livez`` and ``/readyz`` are for whoever starts it again,
# ``/status`` is the same as JSON. A port that is taken costs this view and nothing else.

RETRY_SECONDS: Final = 5.0
"""Between two looks at a port that another process has."""

LAST_SCRAPE_SECONDS: Final = 15.0
"""How long the end of a job that was stopped waits for Prometheus, which else takes it for down."""

FORGOTTEN_SECONDS: Final = 600.0
"""After which a host that asked for figures asks no more."""

READY: Final = frozenset[FlowState]({"running", "draining", "standby", "paused"})
"""States in which a flow does what it was asked to."""

Look = Callable[[], Sequence[Observation]]
"""Returns the newest observation of each flow of the process."""


@contextmanager
def served(
    metrics: MetricsConfig, allowed: Sequence[str], look: Look, pulse: Liveness
) -> Iterator[None]:
    """Serves the view of the process during the block, if the configuration gives a port.

    *allowed* are names by which this machine may be asked.
    """
    if not metrics.port:
        yield
        return
    ended = threading.Event()
    own = partial(
        is_own,
        names=(*allowed, metrics.listen, socket.gethostname()),
        takes_addresses=not is_loopback(metrics.listen),
    )
    scrapes = _Scrapes()
    pages = _pages(metrics, look, pulse)
    start = partial(HttpServer, metrics.listen, metrics.port, pages, own, scrapes.note)
    serving = threading.Thread(
        target=_serve, args=(metrics, start, ended), name="metrics", daemon=True
    )
    serving.start()
    try:
        yield
    finally:
        if flows := look():
            is_stopped = all(observed.state == "stopped" for observed in flows)
            scrapes.await_last(LAST_SCRAPE_SECONDS if is_stopped else 0.0)
        ended.set()


class _Scrapes:
    """When each host has asked for /metrics the last two times: Prometheus often runs twice."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[float, float]] = {}
        self._asked = threading.Condition()

    def note(self, path: str, host: str) -> None:
        if path != "/metrics":
            return
        with self._asked:
            now = time.monotonic()
            lately = {one: at for one, at in self._times.items() if now - at[1] < FORGOTTEN_SECONDS}
            _, last = lately.get(host, (-math.inf, -math.inf))
            self._times = {**lately, host: (last, now)}
            self._asked.notify_all()

    def await_last(self, most_seconds: float) -> None:
        """Waits for one more of each host whose next one is due within *most_seconds*."""
        with self._asked:
            seen, now = self._times, time.monotonic()
            due_in = {host: 2 * last - before - now for host, (before, last) in seen.items()}
            due_in = {host: due for host, due in due_in.items() if -1.0 < due < most_seconds}
            self._asked.wait_for(
                lambda: all(self._times.get(host) != seen[host] for host in due_in),
                max(due_in.values(), default=0.0) + 1.0,
            )


def _serve(metrics: MetricsConfig, start: Callable[[], HttpServer], ended: threading.Event) -> None:
    """Serves until the end; waits for the port if another process has it, and says so once."""
    where = f"{metrics.listen}:{metrics.port}"
    is_said = False
    while not ended.is_set():
        try:
            server = start()
        except OSError as error:
            if not is_said:
                is_said = True
                text = (
                    f"cannot listen on {where}: {error.strerror or error}. The flows run, without "
                    "/metrics, /livez, /readyz and /status. Write another metrics.port or "
                    "metrics.listen for this process, or end the one that has the port: it is "
                    "taken as soon as it is free"
                )
                log.warning("metrics_not_served", port=metrics.port, text=text)
            ended.wait(RETRY_SECONDS)
            continue
        log.info("metrics_served", text=f"http://{where}/metrics")

        def close(server: HttpServer = server) -> None:
            ended.wait()
            server.shutdown()

        threading.Thread(target=close, daemon=True).start()
        with server:
            server.serve_forever()


def _pages(metrics: MetricsConfig, look: Look, pulse: Liveness) -> dict[str, Page]:
    limits = Limits(metrics.topics_max, metrics.groups_max, metrics.partitions)
    page = MetricsPage(look, limits, mm2_names=metrics.mm2_names)
    return {
        "/metrics": lambda accept: Reply(*page.write(accept)),
        "/livez": lambda _accept: _alive(pulse),
        "/readyz": lambda _accept: _ready(look()),
        "/status": lambda _accept: Reply(
            json.dumps({"flows": [document(observed) for observed in look()]}).encode(), JSON
        ),
    }


def _alive(pulse: Liveness) -> Reply:
    if hung := pulse.find_hung():
        return Reply("\n".join([*hung, ""]).encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
    return Reply(b"ok\n")


def _ready(flows: Sequence[Observation]) -> Reply:
    """Answers whether each flow that has not ended runs or stands by, and one has not ended."""
    states = {str(observed.flow): observed.state for observed in flows}
    left = [state for state in states.values() if state not in ENDED]
    is_ready = bool(left) and all(state in READY for state in left)
    text = "".join(f"{flow} {state}\n" for flow, state in states.items()) or "no flow yet\n"
    return Reply(text.encode(), status=200 if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)
