"""What the driver tells over HTTP: its figures, and whether it lives.

``/metrics`` is for Prometheus, ``/livez`` and ``/readyz`` are for whoever starts it again,
``/status`` is the same as JSON. A port that is taken costs this view and nothing else.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from replication.app.http_server import JSON, HttpServer, Page, Reply
from replication.app.pulse import Pulse
from replication.config.addresses import is_loopback, is_own
from replication.config.metrics_settings import MetricsConfig
from replication.figures.document import document
from replication.figures.observation import ENDED, FlowState, Observation
from replication.log import Log
from replication.metrics.limits import Limits
from replication.metrics.page import MetricsPage

log = Log(__name__)

RETRY_SECONDS: Final = 5.0
"""Between two looks at a port that another process has."""

READY: Final = frozenset[FlowState]({"running", "draining", "standby", "paused"})
"""States in which a flow does what it was asked to."""

Look = Callable[[], Sequence[Observation]]
"""Returns the newest observation of each flow of the process."""


@contextmanager
def served(
    metrics: MetricsConfig, allowed: Sequence[str], look: Look, pulse: Pulse
) -> Iterator[None]:
    """Serves the view of the process during the block, if the configuration gives a port.

    Args:
        metrics: The address, and the limits of series.
        allowed: Names by which this machine may be asked.
        look: What is shown.
        pulse: Whether the process lives.
    """
    if not metrics.port:
        yield
        return
    ended = threading.Event()
    start = partial(_server, metrics, allowed, _pages(metrics, look, pulse))
    serving = threading.Thread(
        target=_serve, args=(metrics, start, ended), name="metrics", daemon=True
    )
    serving.start()
    try:
        yield
    finally:
        ended.set()


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
        closing = threading.Thread(target=_close, args=(server, ended), daemon=True)
        closing.start()
        with server:
            server.serve_forever()


def _close(server: HttpServer, ended: threading.Event) -> None:
    ended.wait()
    server.shutdown()


def _server(metrics: MetricsConfig, allowed: Sequence[str], pages: dict[str, Page]) -> HttpServer:
    """Returns the server, which listens already.

    Raises:
        OSError: The address is not one of this machine, or the port is taken.
    """
    names = (*allowed, metrics.listen, socket.gethostname())
    is_open = not is_loopback(metrics.listen)
    own = partial(is_own, names=names, takes_addresses=is_open)
    return HttpServer(metrics.listen, metrics.port, pages, own)


def _pages(metrics: MetricsConfig, look: Look, pulse: Pulse) -> dict[str, Page]:
    limits = Limits(metrics.topics_max, metrics.groups_max, metrics.partitions)
    page = MetricsPage(look, limits, mm2_names=metrics.mm2_names)
    return {
        "/metrics": lambda accept: Reply(*page.write(accept)),
        "/livez": lambda _accept: _alive(pulse),
        "/readyz": lambda _accept: _ready(look()),
        "/status": lambda _accept: _status(look()),
    }


def _alive(pulse: Pulse) -> Reply:
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


def _status(flows: Sequence[Observation]) -> Reply:
    shown = {"flows": [document(observed) for observed in flows]}
    return Reply(json.dumps(shown).encode(), JSON)
