"""Whether a cluster answers at all: what all clients of this process know of its addresses.

Kafka's clients try again without a word until a call has timed out, and then name what they waited
for, not what kept them waiting. While a call is late, this asks each address of
``bootstrap.servers`` as a client without a user would. If none answers, the cluster is
given up after `PATIENCE_SECONDS`, by all clients of the process at once; a call to a cluster that
answers has the time that its properties give it.
"""

import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from struct import error as StructError
from struct import iter_unpack, pack, unpack_from
from threading import Lock, Thread
from types import MappingProxyType
from typing import Any, Final, Literal

from replication.kafka.api import ClientFailure

# A client whose ``security.protocol`` is not the listener's waits until its timeout: the broker
# closes the connection without a reason. So a port is asked what it speaks, by one request as a
# client without security and one over TLS, which authenticate as nobody.

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
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class _TlsSocket(ssl.SSLSocket):
    """Python forgets to close it where the peer resets the connection before the handshake."""

    def __del__(self) -> None:
        self.close()


def anonymous_tls() -> ssl.SSLContext:
    """Returns a context of TLS for looks: any certificate will do, and none is shown."""
    context = ssl.create_default_context()
    context.sslsocket_class = _TlsSocket
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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
    with socket.create_connection(place, TIMEOUT_SECONDS) as plain:
        try:
            connection = anonymous_tls().wrap_socket(plain, server_hostname=place[0])
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


# Which requests a broker knows, and what a mirror lacks where it is too old for one.
#
# Kafka's protocol has no number of the broker's version. The list of its requests tells it apart
# from older ones, and it answers that to everybody.

Side = Literal["source", "target"]
Versions = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each request that a broker takes, by its key."""

HEAD: Final = ">ihi"
ENTRY: Final = ">hhh"


@dataclass(frozen=True, slots=True)
class Need:
    """What a mirror asks of a broker.

    Args:
        key: Of the request.
        version: The lowest that has what is needed.
        since: The release of Kafka that brought it.
        side: The cluster that is asked.
        consequence: What does not work without it.
        is_fatal: Whether nothing is copied then.
    """

    key: int
    version: int
    since: str
    side: Side
    consequence: str
    is_fatal: bool = False


NEEDS: Final = (
    Need(1, 4, "0.11", "source", "records with headers cannot be read", is_fatal=True),
    Need(0, 3, "0.11", "target", "records with headers cannot be written", is_fatal=True),
    Need(22, 0, "0.11", "target", "no producer is idempotent", is_fatal=True),
    Need(11, 5, "2.3", "target", "the lease of a flow cannot be held", is_fatal=True),
    Need(19, 4, "2.4", "target", "a replication factor of -1 is no default"),
    Need(44, 0, "2.3", "target", "settings of topics are not kept equal"),
    Need(3, 10, "2.8", "source", "a topic that is deleted and made again is not told apart"),
    Need(3, 10, "2.8", "target", "a topic that is deleted and made again is not told apart"),
    Need(65, 0, "3.0", "source", "an open transaction has no name in the reason of a stall"),
)
MARKS: Final = (
    ("4.0", 1, 4),
    ("3.8", 75, 0),
    ("3.0", 66, 0),
    ("2.8", 60, 0),
    ("2.4", 47, 0),
    ("2.3", 44, 0),
    ("0.11", 22, 0),
)
"""Releases by what they brought, the newest first: a request, and its lowest version at least."""


def served_versions(address: str, *, is_tls: bool) -> Versions:
    """Asks the broker at *address*, ``host:port``. Nobody is authenticated.

    Raises:
        OSError: It does not answer, or ends a connection that shows no certificate of a client's.
        ValueError: It is no broker.
    """
    host, port = place_of(address)
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), TIMEOUT_SECONDS))
        if is_tls:
            secured = anonymous_tls().wrap_socket(connection, server_hostname=host)
            connection = stack.enter_context(secured)
        answer = ask(connection, API_VERSIONS)
    if answer is None:
        raise ValueError("it gives no answer of a broker's")
    return read_versions(answer)


def read_versions(answer: bytes) -> Versions:
    """Reads the answer of a broker; a `ValueError` says that it is none."""
    try:
        _, code, count = unpack_from(HEAD, answer)
        entries = list(iter_unpack(ENTRY, answer[10 : 10 + 6 * count]))
    except StructError as error:
        raise ValueError("its answer is cut off") from error
    if code or not entries:
        raise ValueError(f"it answers with the error {code}")
    return {key: (lowest, highest) for key, lowest, highest in entries}


def release_of(versions: Versions) -> str:
    """Returns which release of Kafka the broker has at least; "" if it is older than 0.11."""
    found = (name for name, key, lowest in MARKS if versions.get(key, (-1, 0))[0] >= lowest)
    return next(found, "")


def lacking(versions: Versions, sides: Collection[str]) -> Iterator[Need]:
    """Yields what a broker with these *versions* lacks for a cluster that is on those *sides*."""
    for need in NEEDS:
        if need.side in sides and versions.get(need.key, (0, -1))[1] < need.version:
            yield need


PATIENCE_SECONDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "_TRANSPORT": 10.0,  # refused, or no route: a broker that restarts is back in seconds
        "_TIMED_OUT": 10.0,  # silence: a pause, a lost packet, a firewall
        "_RESOLVE": 3.0,  # no such host: a name server answers at once, or asks its own
    }
)
"""How long no address may answer, by what the last look met. A file that sets the admin client's
``default.api.timeout.ms`` has named its own bound."""

ANSWER_SECONDS: Final = 3.0
"""How long an address has for its answer to one look."""

LOOK_SECONDS: Final = 1.0
"""Between two looks; a call that has not been answered for so long is late."""

FRESH_SECONDS: Final = 2 * (ANSWER_SECONDS + LOOK_SECONDS)
"""How long the last look tells something: nobody looks while no call is late."""

MOST_ADDRESSES: Final = 12


@dataclass(frozen=True, slots=True)
class Silence(ClientFailure):
    """Why no address of a cluster answers: each address, with what it met.

    Args:
        is_open: Whether something took a connection and closed it: it may speak another protocol.
    """

    is_open: bool = False


MUTE: Final = Silence("_TIMED_OUT", "timed out")
NAMELESS: Final = Silence("_RESOLVE", "unknown host (no name server has answered)")
CLOSED: Final = Silence("_TRANSPORT", "closed the connection, or is no broker", is_open=True)


class Reach:
    """One cluster's addresses. Threads share it; `reach_of` gives the one of this process.

    Args:
        servers: As ``bootstrap.servers``.
        is_tls: Whether the listener speaks TLS.
    """

    def __init__(self, servers: str, *, is_tls: bool) -> None:
        self._addresses = [
            server.strip().rpartition("://")[2] for server in servers.split(",") if server.strip()
        ]
        self._is_tls = is_tls
        self._lock = Lock()
        self._is_looking = False
        self._silence: Silence | None = None
        self._since = self._looked_at = self._answered_at = -FRESH_SECONDS

    def answered(self) -> None:
        """Takes note that a call was answered, with an error or without."""
        with self._lock:
            self._silence = None
            self._answered_at = time.monotonic()

    def look(self) -> Silence | None:
        """Asks all addresses now; None if one of them answers."""
        started = time.monotonic()
        found = self._look_at_all()
        with self._lock:
            if self._silence is None or started - self._looked_at > FRESH_SECONDS:
                self._since = started
            self._silence = found
            self._looked_at = time.monotonic()
            if found is None:
                self._answered_at = self._looked_at
        return found

    def ask(self, address: str) -> "Future[Silence | None]":
        """Asks one broker at its own *address*, ``host:port``; the answer is as that of `look`."""
        answer = Future[Silence | None]()

        def ask_it() -> None:
            try:
                resolved = answer.set_running_or_notify_cancel
                answer.set_result(_silence_of(address, resolved, is_tls=self._is_tls))
            except BaseException as error:  # noqa: BLE001 - raised again for whoever waits
                answer.set_exception(error)

        Thread(target=ask_it, name="kafka-look", daemon=True).start()
        return answer

    def _look_at_all(self) -> Silence | None:
        asked = {self.ask(address): address for address in self._addresses[:MOST_ADDRESSES]}
        found: dict[str, Silence] = {}
        # a name server may keep a look waiting for longer than any address
        with suppress(TimeoutError):
            for answer in as_completed(asked, ANSWER_SECONDS + LOOK_SECONDS):
                if (silence := answer.result()) is None:
                    return None
                found[asked[answer]] = silence
        for answer, address in asked.items():
            found.setdefault(address, MUTE if answer.running() or answer.done() else NAMELESS)
        codes = {silence.code for silence in found.values()}
        order = (code for code in PATIENCE_SECONDS if code in codes)
        text = "; ".join(f"{address}: {found[address].text}" for address in asked.values())
        return Silence(next(order), text, any(silence.is_open for silence in found.values()))

    @property
    def is_open(self) -> bool:
        """Whether the last look met a port that takes connections and sends something, or ends."""
        with self._lock:
            return self._is_fresh() and (self._silence is None or self._silence.is_open)

    def given_up(self, bound_s: float | None = None) -> Silence | None:
        """Returns why the cluster has not answered for too long; None while there is hope.

        Goes by the last look, and looks again in the background if that is due.

        Args:
            bound_s: Instead of `PATIENCE_SECONDS`.
        """
        with self._lock:
            now, silence = time.monotonic(), self._silence if self._is_fresh() else None
            is_due = not self._is_looking and now - self._looked_at >= LOOK_SECONDS
            self._is_looking = self._is_looking or is_due
            silent_s = now - self._since
        if is_due:
            Thread(target=self._look_in_background, name="kafka-look", daemon=True).start()
        if silence is None:
            return None
        bound_s = PATIENCE_SECONDS[silence.code] if bound_s is None else bound_s
        return silence if silent_s >= bound_s else None

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._looked_at <= FRESH_SECONDS

    def await_answer(self, bound_s: float | None = None) -> Silence | None:
        """Waits until an address answers; returns why none did within the bound.

        Asks nobody where the cluster has just answered.
        """
        while time.monotonic() - self._answered_at > FRESH_SECONDS:
            started = time.monotonic()
            if self.look() is None:
                break
            if silence := self.given_up(bound_s):
                return silence
            time.sleep(max(0.0, started + LOOK_SECONDS - time.monotonic()))
        return None

    def _look_in_background(self) -> None:
        try:
            self.look()
        finally:
            with self._lock:
                self._is_looking = False


def reach_of(properties: Mapping[str, str]) -> Reach:
    """Returns the reach of the cluster that a client with *properties*, in Java's keys, uses."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    return _reach(properties.get("bootstrap.servers", ""), is_tls=protocol.endswith("SSL"))


def bound_s(properties: Mapping[str, str]) -> float | None:
    """Returns how long a cluster may be silent, in s, by *properties*; None by default."""
    own = properties.get("default.api.timeout.ms")
    return int(own) / 1000 if own else None


def with_answering_servers(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Returns *properties* of a new client without those of its addresses that are mute now.

    It would wait half a minute for a broker that is paused, if it began with that one. An address
    that refuses, or is unknown, costs nothing, and may be the cluster's only one later. If none
    answers, all stay.
    """
    servers = [one.strip() for one in properties.get("bootstrap.servers", "").split(",")]
    if len(servers) < 2:  # noqa: PLR2004 - there is no choice
        return properties
    reach = reach_of(properties)
    asked = {server: reach.ask(server.rpartition("://")[2]) for server in servers}
    wait(asked.values(), ANSWER_SECONDS)
    found = {one: answer.result() for one, answer in asked.items() if answer.done()}
    left = [one for one, silence in found.items() if silence is None or silence.code != MUTE.code]
    is_any = any(silence is None for silence in found.values())
    return {**properties, "bootstrap.servers": ",".join(left if is_any else servers)}


class MuteServers:
    """Addresses that a client does not know, because they were mute when it began.

    Args:
        properties: Of the client, with all its addresses.
        known: Those that it was told.
    """

    def __init__(self, properties: Mapping[str, str], known: Mapping[str, str]) -> None:
        both = (each.get("bootstrap.servers", "").split(",") for each in (properties, known))
        every, self._known = ({server.strip() for server in servers} for servers in both)
        self._left = every - self._known
        self._reach = reach_of(properties)
        self._asked: dict[str, Future[Silence | None]] = {}
        self._looked_at = time.monotonic()

    def have_taken_over(self) -> bool:
        """Returns whether one of them answers by now, and none that the client knows does.

        Asks them now and then, in the background.
        """
        if not self._left:
            return False
        if not self._asked and time.monotonic() - self._looked_at >= ANSWER_SECONDS:
            servers = self._left | self._known
            self._asked = {one: self._reach.ask(one.rpartition("://")[2]) for one in servers}
        if not self._asked or not all(answer.done() for answer in self._asked.values()):
            return False
        answering = {one for one, answer in self._asked.items() if answer.result() is None}
        self._asked, self._looked_at = {}, time.monotonic()
        return bool(answering & self._left) and not answering & self._known


@cache
def _reach(servers: str, *, is_tls: bool) -> Reach:
    return Reach(servers, is_tls=is_tls)


def _silence_of(address: str, resolved: Callable[[], object], *, is_tls: bool) -> Silence | None:
    """Returns why *address*, ``host:port``, does not answer; None if it does.

    Calls *resolved* once its name server has answered, which is asked once.
    """
    try:
        host, port = place_of(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        finally:
            resolved()
        with _connect([place[:2] for *_, place in found]) as connection:
            if is_tls:
                anonymous_tls().wrap_socket(connection, server_hostname=host).close()
            elif ask(connection, API_VERSIONS) is None:
                return CLOSED
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError):
        return CLOSED
    except (ssl.SSLError, ValueError):
        # It speaks TLS and wants another version, or a certificate. Or it is no address at all, as
        # the clients will say.
        return None
    except TimeoutError:
        return MUTE
    except socket.gaierror as error:
        return Silence("_RESOLVE", f"unknown host ({error.strerror})")
    except OSError as error:  # in the words of Kafka's clients
        return Silence("_TRANSPORT", (error.strerror or str(error)).lower())
    return None


def _connect(places: Sequence[tuple[Any, ...]]) -> socket.socket:
    """Returns a connection to the first of *places* that takes one; the last one's error if none.

    They are numeric: no name server is asked.
    """
    for place in places[:-1]:
        with suppress(OSError):
            return socket.create_connection(place, ANSWER_SECONDS)
    return socket.create_connection(places[-1], ANSWER_SECONDS)
