"""Until when the certificate of a broker is valid, as the broker shows it to everybody."""

import socket
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Final

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError

from replication.config.client_keys import with_defaults
from replication.errors import first_line
from replication.figures.lag import utc
from replication.java import java_class
from replication.kafka.jvm import java_map
from replication.kafka.reach import TIMEOUT_SECONDS, anonymous_tls, place_of

VERSION: Final = 0xA0
UTC_TIME: Final = 0x17  # two digits of the year, and four in the other form
LONG_SIZE: Final = 0x80


def served_until(address: str) -> datetime:
    """Returns when the certificate of *address*, ``host:port``, ends. Nobody is authenticated.

    Raises:
        OSError: The address does not answer, or not in TLS, or ends a connection that shows no
            certificate of a client's.
        ValueError: It shows a certificate that cannot be read, or none.
    """
    host, port = place_of(address)
    with (
        socket.create_connection((host, port), TIMEOUT_SECONDS) as plain,
        anonymous_tls().wrap_socket(plain, server_hostname=host) as connection,
    ):
        return valid_until(connection.getpeercert(binary_form=True) or b"")


def valid_until(der: bytes) -> datetime:
    """Returns when the X.509 certificate *der* ends. Python reads only trusted ones."""
    try:
        _, at, _ = _element(der, 0)  # the certificate
        _, at, _ = _element(der, at)  # what is signed
        tag, _, end = _element(der, at)
        at = end if tag == VERSION else at
        for _ in ("serial number", "algorithm", "issuer"):
            at = _element(der, at)[2]
        _, at, _ = _element(der, at)  # the validity
        at = _element(der, at)[2]  # its beginning
        tag, at, end = _element(der, at)
        form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(der[at:end].decode(), form).replace(tzinfo=timezone.utc)
    except IndexError as error:
        raise ValueError("it is cut off") from error


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Returns the tag of the element at *at*, and where its content begins and ends."""
    tag, size, at = der[at], der[at + 1], at + 2
    if size & LONG_SIZE:
        width = size & ~LONG_SIZE
        size = int.from_bytes(der[at : at + width], "big")
        at += width
    return tag, at, at + size


def own_certificates(jvm: JVMView, admin: Mapping[str, str]) -> dict[str, datetime]:
    """Returns when the certificates end that the client with the properties *admin* has.

    By the property that names the store. Of its own certificates the first end counts; of those
    that it trusts the last one: a CA that has ended beside another one hurts nobody.

    Raises:
        ValueError: A store cannot be read.
    """
    if not admin.get("security.protocol", "").upper().endswith("SSL"):
        return {}
    try:
        settings = java_map(jvm, with_defaults("admin", admin))
        config_class = java_class(jvm, "org.apache.kafka.clients.admin.AdminClientConfig")
        parsed = config_class(settings).values()
        factory = java_class(jvm, "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory")()
        factory.configure(parsed)
        own = list(_ends(factory.keystore(), only_keys=True))
        trusted = list(_ends(factory.truststore(), only_keys=False))
    except Py4JError as error:
        raise ValueError(first_line(error)) from error
    return {
        **({"ssl.keystore.location": min(own)} if own else {}),
        **({"ssl.truststore.location": max(trusted)} if trusted else {}),
    }


def _ends(store: JavaObject | None, *, only_keys: bool) -> Iterator[datetime]:
    if store is None:
        return
    names = store.aliases()
    while names.hasMoreElements():
        name = names.nextElement()
        if store.isKeyEntry(name) or not only_keys:
            yield utc(store.getCertificate(name).getNotAfter().getTime() / 1000)
