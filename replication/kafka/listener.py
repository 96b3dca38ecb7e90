"""Asks a port what it speaks, to explain why a client gets no answer from it.

A client whose ``security.protocol`` is not the listener's waits until its timeout: the broker
closes the connection without a reason. This sends one request as a client without security and
one over TLS, and looks at the answers. It authenticates as nobody.
"""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from struct import pack, unpack_from
from typing import Final

TIMEOUT_SECONDS: Final = 3.0
MOST_SERVERS: Final = 3
API_VERSIONS: Final = pack(">hhih", 18, 0, 1, -1)
# of no mechanism that exists, so that the answer has the list of those that are enabled
SASL_HANDSHAKE: Final = pack(">hhihh", 17, 1, 1, -1, 1) + b"?"
NOT_SASL: Final = 34  # ILLEGAL_SASL_STATE: the listener wants no authentication by SASL
LARGEST_ANSWER: Final = 65_536


@dataclass(frozen=True, slots=True)
class Listener:
    """What a port speaks.

    Args:
        is_tls: Whether it wants TLS.
        mechanisms: The SASL mechanisms that it accepts; none if it wants no SASL; None if unknown.
        wants_certificate: Whether it ends a connection without a client certificate.
    """

    is_tls: bool
    mechanisms: tuple[str, ...] | None = None
    wants_certificate: bool = False

    @property
    def protocol(self) -> str:
        """Kafka's name for it, as a value of ``security.protocol``."""
        layer = "SSL" if self.is_tls else "PLAINTEXT"
        return f"SASL_{layer}" if self.mechanisms else layer


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a listener does not answer a client.

    Args:
        reason: What differs.
        step: What to write, with ``{alias}`` where the cluster's alias belongs.
    """

    reason: str
    step: str


def find_mismatch(properties: Mapping[str, str]) -> Mismatch | None:
    """Finds why the listener of *properties* does not answer this client, and what to write.

    None if nothing is wrong, or if the listener does not say.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    for server in properties.get("bootstrap.servers", "").split(",")[:MOST_SERVERS]:
        address = server.strip().rpartition("://")[2]
        listener = look_at(address)
        if listener is not None:
            return _mismatch(address, listener, protocol, mechanism)
    return None


def place_of(address: str) -> tuple[str, int]:
    """Returns the host and the port of *address*, ``host:port``."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _mismatch(address: str, listener: Listener, protocol: str, mechanism: str) -> Mismatch | None:
    wanted = listener.protocol
    is_known = listener.mechanisms is not None
    same_layer = protocol.endswith("SSL") == listener.is_tls
    if same_layer and (not is_known or protocol == wanted):
        if listener.mechanisms and mechanism not in listener.mechanisms:
            return Mismatch(
                f"{address} accepts the SASL mechanisms {', '.join(listener.mechanisms)} and not "
                f"{mechanism}",
                "set {alias}.sasl.mechanism to one of them",
            )
        return None
    if is_known:
        step = f"set {{alias}}.security.protocol={wanted}"
    elif listener.is_tls:
        step = "set {alias}.security.protocol=SSL or SASL_SSL"
    else:
        step = "set {alias}.security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    with_mechanisms = f" with {', '.join(listener.mechanisms)}" if listener.mechanisms else ""
    return Mismatch(f"{address} speaks {wanted}{with_mechanisms} and not {protocol}", step)


def look_at(address: str) -> Listener | None:
    """Finds what *address*, ``host:port``, speaks; None if it is silent or not a broker."""
    place = place_of(address)
    try:
        with socket.create_connection(place, TIMEOUT_SECONDS) as connection:
            answer = ask(connection, API_VERSIONS)
            if answer is not None:
                return Listener(is_tls=False, mechanisms=_mechanisms(connection))
        return _look_over_tls(place)
    except (OSError, ValueError):
        return None


def _look_over_tls(place: tuple[str, int]) -> Listener | None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(place, TIMEOUT_SECONDS) as plain:
        try:
            connection = context.wrap_socket(plain, server_hostname=place[0])
        except ssl.SSLError as error:
            wants = "certificate" in str(error).lower()
            return Listener(is_tls=True, wants_certificate=True) if wants else None
        with connection:
            try:
                if ask(connection, API_VERSIONS) is not None:
                    return Listener(is_tls=True, mechanisms=_mechanisms(connection))
            except ssl.SSLError:  # TLS 1.3 asks for a certificate after the handshake
                return Listener(is_tls=True, wants_certificate=True)
    return Listener(is_tls=True)


def _mechanisms(connection: socket.socket) -> tuple[str, ...] | None:
    try:
        answer = ask(connection, SASL_HANDSHAKE)
    except OSError:
        return None
    if answer is None or len(answer) < 10:  # noqa: PLR2004 - correlation, error, count
        return ()  # a listener without SASL closes the connection, or says so
    error, count = unpack_from(">hi", answer, 4)
    names, at = [], 10
    for _ in range(0 if error == NOT_SASL else count):
        (size,) = unpack_from(">h", answer, at)
        names.append(answer[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return tuple(sorted(names))


def ask(connection: socket.socket, request: bytes) -> bytes | None:
    """Sends *request* and returns the answer; None if there is none, or if it is not Kafka's."""
    connection.sendall(pack(">i", len(request)) + request)
    head = _receive(connection, 4)
    if len(head) < 4:  # noqa: PLR2004 - the size of an answer
        return None
    (size,) = unpack_from(">i", head)
    return _receive(connection, size) if 0 < size < LARGEST_ANSWER else None


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data
