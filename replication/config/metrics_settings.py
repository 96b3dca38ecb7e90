"""What the driver shows over HTTP: its figures for Prometheus, and whether it lives. Pure."""

import ipaddress
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from replication.config.config_key import NOT_MM2, choice, flag, names, number, port, text

# Whose an address or a name is: what only this machine reaches, and what a server is called.
#
# A page in a browser can lead its own name to an address inside the network (DNS rebinding), and
# then reads what answers there. It cannot choose the header Host, which has its name. So names are
# known, or are addresses.

LOCALHOST: Final = "localhost"


def is_loopback(address: str) -> bool:
    """Returns whether only this machine reaches *address*, a name or a number."""
    found = _address(address.strip("[]"))
    return found.is_loopback if found else address == LOCALHOST


def is_own(host: str, names: Collection[str], *, takes_addresses: bool) -> bool:
    """Returns whether the header Host, as sent, is a name of this server.

    Args:
        host: With or without a port.
        names: Further names of the server, beside those of loopback.
        takes_addresses: Whether any address is one: a server that listens on all addresses does
            not know how others reach it.
    """
    name = host.strip().lower()  # without port and brackets
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name in {LOCALHOST, "127.0.0.1", "::1", *(known.lower() for known in names)}:
        return True
    return takes_addresses and _address(name) is not None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


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


# How the view is served to people and programs: address, tokens, TLS, proxies.

_LIKE_SRM: Final = "not a key of MirrorMaker 2; the port is that of SRM's service"


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """What ``replication serve`` listens on, and whom it answers.

    ``prefix`` is empty, or begins with a slash and does not end with one.
    """

    port: Annotated[
        int,
        port("rest.port", "6670", "the port of `serve`; 0 is any free one", _LIKE_SRM),
    ]
    listen: Annotated[
        str,
        text(
            "rest.listen",
            "the address on which `serve` listens; another one than loopback needs tokens or "
            "client certificates",
            "127.0.0.1",
        ).at_top(),
    ]
    tokens_file: Annotated[
        str,
        text(
            "rest.tokens.file",
            "a file with the digests of tokens, as `replication token` makes them; without it "
            "everybody on this machine may read, and nobody may write",
        ).at_top(),
    ]
    certificate: Annotated[
        str, text("rest.tls.certificate", "the certificates of `serve`, a file in PEM").at_top()
    ]
    key: Annotated[
        str, text("rest.tls.key", "the key of rest.tls.certificate, a file in PEM").at_top()
    ]
    client_ca: Annotated[
        str,
        text(
            "rest.tls.client.ca",
            "who signs the certificates that clients must have, a file in PEM; such a client may "
            "read",
        ).at_top(),
    ]
    prefix: Annotated[
        str,
        text(
            "rest.path.prefix",
            "what a proxy puts before all paths of `serve`, for example /replication",
        ).at_top(),
    ]
    allowed_hosts: Annotated[
        tuple[str, ...],
        names(
            "rest.allowed.hosts",
            "the names under which `serve` and the driver's /metrics are asked, besides those of "
            "loopback and of the address on which they listen",
        ).at_top(),
    ]
    trusted_proxies: Annotated[
        tuple[str, ...],
        names(
            "rest.trusted.proxies",
            "addresses of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed",
        ).at_top(),
    ]

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.listen)

    def with_address(self, listen: str | None, port: int | None) -> "ServeConfig":
        """Returns the same at another address, as options of the command line give it."""
        return replace(self, listen=listen or self.listen, port=self.port if port is None else port)


def serve_problems(serve: ServeConfig) -> Iterator[tuple[str, str]]:
    """Yields the key and what is wrong, for settings that do not go together."""
    if not serve.is_loopback and not (serve.tokens_file or serve.client_ca):
        problem = (
            f"{serve.listen!r} is reached from other machines, and everybody there could read the "
            "names of topics and groups; write rest.tokens.file or rest.tls.client.ca, or 127.0.0.1"
        )
        yield "rest.listen", problem
    if bool(serve.certificate) != bool(serve.key):
        missing = "rest.tls.key" if serve.certificate else "rest.tls.certificate"
        yield missing, "missing; certificate and key are needed together"
    if serve.client_ca and not serve.certificate:
        yield "rest.tls.client.ca", "has no effect without rest.tls.certificate and rest.tls.key"
    if serve.prefix and (not serve.prefix.startswith("/") or serve.prefix.endswith("/")):
        yield "rest.path.prefix", f"{serve.prefix!r} must begin with a slash, and not end with one"
    for name in serve.trusted_proxies:
        if not _is_network(name):
            problem = f"{name!r} is no address; write for example 10.0.0.7 or 10.0.0.0/8"
            yield "rest.trusted.proxies", problem


def _is_network(name: str) -> bool:
    try:
        return bool(ipaddress.ip_network(name, strict=False))
    except ValueError:
        return False
