"""Which requests a broker knows, and what a mirror lacks where it is too old for one.

Kafka's protocol has no number of the broker's version. The list of its requests tells it apart from
older ones, and it answers that to everybody.
"""

import socket
import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from struct import error as StructError
from struct import iter_unpack, unpack_from
from typing import Final, Literal

from replication.kafka.listener import API_VERSIONS, TIMEOUT_SECONDS, ask, place_of

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
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            secured = context.wrap_socket(connection, server_hostname=host)
            connection = stack.enter_context(secured)
        answer = ask(connection, API_VERSIONS)
    if answer is None:
        raise ValueError("it gives no answer of a broker's")
    return read_versions(answer)


def read_versions(answer: bytes) -> Versions:
    """Reads the answer of a broker.

    Raises:
        ValueError: It is none.
    """
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
