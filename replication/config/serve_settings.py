"""How the view is served to people and programs: address, tokens, TLS, proxies. Pure."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final

from replication.config.addresses import is_loopback
from replication.config.config_key import names, port, text

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
        """Whether only this machine reaches the address."""
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
