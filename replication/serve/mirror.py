"""Serves a mirror: what its flows publish, by REST, on pages and for Prometheus."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from replication.config.metrics_settings import ServeConfig
from replication.config.tree import MirrorConfig
from replication.figures.observation import Observation
from replication.log import Log
from replication.metrics.collector import MetricsPage
from replication.metrics.limits import Limits
from replication.serve.app import Parts, build_app
from replication.serve.questions import Questions
from replication.serve.run import Server, open_listener
from replication.serve.sight import History, Listening, Sight
from replication.serve.tokens import follow_tokens

log = Log(__name__)

DISTRIBUTION: Final = "kafka-replication-on-spark"


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
        sight = Sight((flow.flow for flow in config.flows), listening.look)
        questions = Questions(config)
        metrics = metrics_of(config, sight)
        history = History(sight, questions.figures)
        parts = Parts(sight, questions, history, listening.is_complete, metrics.write)
        server = Server(build_app(parts, serve, tokens, _version()), serve, listener)
        log.info("serving", text=listener.url)
        say(listener.url)
        server.run()


def metrics_of(config: MirrorConfig, sight: Sight) -> MetricsPage:
    """Returns the series of all flows, as they were seen last."""

    def look() -> list[Observation]:
        found = (sight.see(flow).observation for flow in sight.flows)
        return [observed for observed in found if observed is not None]

    limits = Limits(
        topics=config.metrics.topics_max,
        groups=config.metrics.groups_max,
        partitions=config.metrics.partitions,
    )
    return MetricsPage(
        look,
        limits,
        is_stale=lambda observed: sight.see(observed.flow).is_silent,
        mm2_names=config.metrics.mm2_names,
    )


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
