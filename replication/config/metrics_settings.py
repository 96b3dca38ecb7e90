"""What the driver shows over HTTP: its figures for Prometheus, and whether it lives. Pure."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from replication.config.config_key import MOST, NOT_MM2, ConfigKey, Kind
from replication.config.serve_settings import is_loopback

PartitionSeries = Literal["off", "lagging", "all"]
"""Which partitions have series of their own."""

_MOST_PORT: Final = 65_535


def _top(
    name: str, kind: Kind, default: str, meaning: str, least: int = 0, most: int = MOST
) -> ConfigKey:
    """Returns a key of the file, not of a flow."""
    return ConfigKey(
        name,
        kind,
        default,
        meaning,
        NOT_MM2,
        get_args(PartitionSeries) if kind == "choice" else (),
        least=least,
        most=most,
        places=("top",),
    )


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """The HTTP server of the driver, and how many series Prometheus finds there.

    ``port`` is 0 if there is no server.
    """

    port: Annotated[
        int,
        _top(
            "metrics.port",
            "number",
            "0",
            "the port at which the driver has /metrics for Prometheus, /livez, /readyz and "
            "/status; 0 for none",
            most=_MOST_PORT,
        ),
    ]
    listen: Annotated[
        str,
        _top(
            "metrics.listen",
            "text",
            "127.0.0.1",
            "the address on which the driver listens for that; 0.0.0.0 is all of its machine's",
        ),
    ]
    partitions: Annotated[
        PartitionSeries,
        _top(
            "metrics.partitions",
            "choice",
            "lagging",
            "which partitions have series of their own: none, the 100 worst of those that do not "
            "keep up, or all, up to 10000",
        ),
    ]
    topics_max: Annotated[
        int,
        _top(
            "metrics.topics.max",
            "number",
            "1000",
            "how many topics of a flow have series of their own; the rest is (others)",
            least=1,
        ),
    ]
    groups_max: Annotated[
        int,
        _top(
            "metrics.groups.max",
            "number",
            "500",
            "how many consumer groups of a flow have series of their own; the rest is (others)",
            least=1,
        ),
    ]
    mm2_names: Annotated[
        bool,
        _top(
            "metrics.mm2.names",
            "flag",
            "false",
            "shows the figures under MirrorMaker 2's names, too, as Strimzi's exporter writes them",
        ),
    ]


def metrics_problem(metrics: MetricsConfig) -> str | None:
    """Returns what is wrong with the address; None if a server may listen there."""
    try:
        _ = metrics.listen == "localhost" or ipaddress.ip_address(metrics.listen)
    except ValueError:
        return (
            f"{metrics.listen!r} is no address; write one of this machine, or 127.0.0.1, or "
            "0.0.0.0 for all"
        )
    return None


def metrics_warnings(metrics: MetricsConfig) -> Iterator[tuple[str, str]]:
    """Yields the key and what its author may not have meant."""
    if metrics.port and not is_loopback(metrics.listen):
        warning = (
            f"whoever reaches port {metrics.port} of {metrics.listen} may read the names of topics "
            "and groups, without a password; let only Prometheus reach it"
        )
        yield "metrics.listen", warning
    if metrics.partitions == "all":
        warning = (
            "all gives Prometheus two series for each partition, up to 20000 a flow; lagging gives "
            "those that matter"
        )
        yield "metrics.partitions", warning
