"""Serves a mirror: what its flows publish, by REST, on pages and for Prometheus."""

import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from replication.config.metrics_settings import ServeConfig
from replication.config.tree import MirrorConfig
from replication.errors import SetupError
from replication.figures.observation import Observation
from replication.log import Log
from replication.metrics.collector import MetricsPage
from replication.metrics.limits import Limits
from replication.serve.app import Parts, build_app
from replication.serve.questions import Questions
from replication.serve.security import SECONDS
from replication.serve.snapshots import FlowSnapshots, History, Listening
from replication.serve.tokens import Followed, check_private, follow_tokens

log = Log(__name__)

DISTRIBUTION: Final = "kafka-replication-on-spark"

# TLS of `serve`: each connection gets the certificates that the files hold when it comes.


class FollowedCertificates(ssl.SSLContext):
    """A context that follows its files: whoever replaces a certificate starts nothing again."""

    def __new__(cls, _: ServeConfig) -> "FollowedCertificates":  # noqa: PYI034 - from 3.11
        """Makes a context for servers."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, serve: ServeConfig) -> None:
        self._followed = Followed(
            [file for file in (serve.certificate, serve.key, serve.client_ca) if file],
            lambda: load_certificates(serve),
            loaded=lambda files: log.info("certificates_loaded", text=files),
            kept=lambda reason: log.warning(
                "certificates_kept", text=f"{reason}. Connections get the certificates of before"
            ),
        )

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - ssl's own
        """Begins a connection with the certificates of now."""
        return self._followed.now().wrap_bio(*args, **options)


def load_certificates(serve: ServeConfig) -> ssl.SSLContext:
    """Returns a context with what the files of *serve* hold."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # or a session outlives the authority that vouched for its client
    check_private("rest.tls.key", serve.key)
    pair = f"rest.tls.certificate ({serve.certificate}) and rest.tls.key ({serve.key})"
    try:
        context.load_cert_chain(serve.certificate, serve.key, _no_password)
    except (OSError, ValueError) as error:
        raise SetupError(
            f"{pair} cannot be loaded: {_reason(error)}; write a certificate and its own key in "
            "PEM, which this user can read"
        ) from error
    if serve.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(serve.client_ca)
        except (OSError, ValueError) as error:
            raise SetupError(
                f"rest.tls.client.ca ({serve.client_ca}) cannot be loaded: {_reason(error)}; write "
                "the certificates of authorities in PEM"
            ) from error
    return context


def _no_password() -> str:
    """Refuses to ask on a terminal, where nobody may be."""
    raise ValueError("the key is encrypted, and nobody can be asked for its password")


def _reason(error: Exception) -> str:
    name = getattr(error, "reason", None)  # of OpenSSL, such as KEY_VALUES_MISMATCH
    words = name.replace("_", " ").lower() if name else getattr(error, "strerror", None)
    return words or str(error)


MOST_CONNECTIONS: Final = 50
_BACKLOG: Final = 50


class Patient(H11Protocol):
    """Ends a connection on which no whole request arrives in time."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._seen: object = None
        self.loop.call_later(SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        """Ends a connection that has been idle, or within a request, since the last look."""
        if self.transport.is_closing():  # what is left is not read
            self.transport.abort()
            return
        cycle: Any = self.cycle  # None before the first request
        is_idle = cycle is None or cycle.response_complete
        if is_idle and cycle is self._seen:
            self.transport.abort()
            return
        self._seen = cycle if is_idle else None
        self.loop.call_later(SECONDS, self._end_if_idle)


@dataclass(frozen=True, slots=True)
class OpenSocket:
    """A socket that listens, and the address of the first page."""

    socket: socket.socket
    url: str


def open_listener(serve: ServeConfig) -> OpenSocket:
    """Listens where *serve* says."""
    try:
        family = socket.getaddrinfo(serve.listen, serve.port, type=socket.SOCK_STREAM)[0][0]
        found = socket.create_server((serve.listen, serve.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        is_unknown = isinstance(error, socket.gaierror) or error.errno is None
        reason = error.strerror if is_unknown else os.strerror(error.errno or 0)
        raise SetupError(
            f"cannot listen on {serve.listen} port {serve.port}: {reason}; end what listens there, "
            "or choose another rest.port (0 is any free one) or rest.listen"
        ) from error
    scheme = "https" if serve.certificate else "http"
    host = f"[{serve.listen}]" if ":" in serve.listen else serve.listen
    return OpenSocket(found, f"{scheme}://{host}:{found.getsockname()[1]}{serve.prefix}/")


class Server:
    """Answers requests by *app*."""

    def __init__(self, app: ASGIApp, serve: ServeConfig, listener: OpenSocket) -> None:
        config = uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            proxy_headers=bool(serve.trusted_proxies),
            forwarded_allow_ips=list(serve.trusted_proxies) or None,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=int(SECONDS),
            timeout_graceful_shutdown=int(SECONDS),
        )
        config.load()
        if serve.certificate:
            config.ssl = FollowedCertificates(serve)
        self._server = uvicorn.Server(config)
        self._socket = listener.socket

    def run(self) -> None:
        """Answers until SIGINT, SIGTERM or `end`."""
        self._server.run(sockets=[self._socket])

    def end(self) -> None:
        """Lets `run` return once what is being answered is answered."""
        self._server.should_exit = True


def serve_mirror(config: MirrorConfig, serve: ServeConfig, say: Callable[[str], None]) -> None:
    """Serves what the flows of *config* publish, until SIGINT or SIGTERM.

    Args:
        config: The configuration.
        serve: Where to listen, which options may have changed.
        say: Is told the address.

    Raises:
        SetupError: It cannot be served there, or the tokens or certificates cannot be read.
    """
    tokens = follow_tokens(serve.tokens_file)
    listener = open_listener(serve)
    with listener.socket, Listening(config) as listening:
        snapshots = FlowSnapshots((flow.flow for flow in config.flows), listening.look)
        questions = Questions(config)
        metrics = metrics_of(config, snapshots)
        history = History(snapshots, questions.figures)
        parts = Parts(snapshots, questions, history, listening.is_complete, metrics.write)
        server = Server(build_app(parts, serve, tokens, _version()), serve, listener)
        log.info("serving", text=listener.url)
        say(listener.url)
        server.run()


def metrics_of(config: MirrorConfig, snapshots: FlowSnapshots) -> MetricsPage:
    """Returns the series of all flows, as they were seen last."""

    def look() -> list[Observation]:
        found = (snapshots.see(flow).observation for flow in snapshots.flows)
        return [observed for observed in found if observed is not None]

    limits = Limits(
        topics=config.metrics.topics_max,
        groups=config.metrics.groups_max,
        partitions=config.metrics.partitions,
    )
    return MetricsPage(
        look,
        limits,
        is_stale=lambda observed: snapshots.see(observed.flow).is_silent,
        mm2_names=config.metrics.mm2_names,
    )


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
