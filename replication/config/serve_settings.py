"""How the view is served to people and programs: address, tokens, TLS, proxies. Pure."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final

from replication.config.config_key import NOT_MM2, ConfigKey, Kind

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_PORT: Final = 65_535
_LIKE_SRM: Final = "not a key of MirrorMaker 2; the port is that of SRM's service"


def _top(
    name: str, kind: Kind, default: str, meaning: str, mm2: str = NOT_MM2, most: int = _MOST_PORT
) -> ConfigKey:
    return ConfigKey(name, kind, default, meaning, mm2, most=most, places=("top",))


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """What ``replication serve`` listens on, and whom it answers.

    ``prefix`` is empty, or begins with a slash and does not end with one.
    """

    port: Annotated[
        int,
        _top("rest.port", "number", "6670", "the port of `serve`; 0 is any free one", _LIKE_SRM),
    ]
    listen: Annotated[
        str,
        _top(
            "rest.listen",
            "text",
            "127.0.0.1",
            "the address on which `serve` listens; another one than loopback needs tokens or "
            "client certificates",
        ),
    ]
    tokens_file: Annotated[
        str,
        _top(
            "rest.tokens.file",
            "text",
            "",
            "a file with the digests of tokens, as `replication token` makes them; without it "
            "everybody on this machine may read, and nobody may write",
        ),
    ]
    certificate: Annotated[
        str, _top("rest.tls.certificate", "text", "", "the certificates of `serve`, a file in PEM")
    ]
    key: Annotated[
        str, _top("rest.tls.key", "text", "", "the key of rest.tls.certificate, a file in PEM")
    ]
    client_ca: Annotated[
        str,
        _top(
            "rest.tls.client.ca",
            "text",
            "",
            "who signs the certificates that clients must have, a file in PEM; such a client may "
            "read",
        ),
    ]
    prefix: Annotated[
        str,
        _top(
            "rest.path.prefix",
            "text",
            "",
            "what a proxy puts before all paths of `serve`, for example /replication",
        ),
    ]
    allowed_hosts: Annotated[
        tuple[str, ...],
        _top(
            "rest.allowed.hosts",
            "names",
            "",
            "the names under which `serve` and the driver's /metrics are asked, besides those of "
            "loopback and of the address on which they listen",
        ),
    ]
    trusted_proxies: Annotated[
        tuple[str, ...],
        _top(
            "rest.trusted.proxies",
            "names",
            "",
            "addresses of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed",
        ),
    ]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.listen)

    def with_address(self, listen: str | None, port: int | None) -> "ServeConfig":
        """Returns the same at another address, as options of the command line give it."""
        return replace(self, listen=listen or self.listen, port=self.port if port is None else port)


def is_loopback(address: str) -> bool:
    """Returns whether only this machine reaches *address*."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


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
