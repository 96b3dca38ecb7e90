"""What the driver shows over HTTP: its figures for Prometheus, and whether it lives. Pure."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from replication.config.addresses import is_loopback
from replication.config.config_key import NOT_MM2, choice, flag, number, port, text

PartitionSeries = Literal["off", "lagging", "all"]
"""Which partitions have series of their own."""


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """The HTTP server of the driver, and how many series Prometheus finds there.

    ``port`` is 0 if there is no server.
    """

    port: Annotated[
        int,
        port(
            "metrics.port",
            "0",
            "the port at which the driver has /metrics for Prometheus, /livez, /readyz and "
            "/status; 0 for none",
        ),
    ]
    listen: Annotated[
        str,
        text(
            "metrics.listen",
            "the address on which the driver listens for that; 0.0.0.0 is all of its machine's",
            "127.0.0.1",
        ).at_top(),
    ]
    partitions: Annotated[
        PartitionSeries,
        choice(
            "metrics.partitions",
            PartitionSeries,
            "lagging",
            "which partitions have series of their own: none, the 100 worst of those that do not "
            "keep up, or all, up to 10000",
            NOT_MM2,
        ).at_top(),
    ]
    topics_max: Annotated[
        int,
        number(
            "metrics.topics.max",
            "1000",
            "how many topics of a flow have series of their own; the rest is (others)",
            least=1,
        ).at_top(),
    ]
    groups_max: Annotated[
        int,
        number(
            "metrics.groups.max",
            "500",
            "how many consumer groups of a flow have series of their own; the rest is (others)",
            least=1,
        ).at_top(),
    ]
    mm2_names: Annotated[
        bool,
        flag(
            "metrics.mm2.names",
            "false",
            "also shows the figures under MirrorMaker 2's names, as Strimzi's exporter writes them",
            NOT_MM2,
        ).at_top(),
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
