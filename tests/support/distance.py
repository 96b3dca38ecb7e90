"""A long way to a broker: a proxy that passes bytes on after the time that they would travel."""

import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.support.proxy import Listening

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What lies between two machines.

    Args:
        round_trip_s: Seconds of a question and its answer; each takes half.
        jitter_s: Up to so many seconds more for some bytes, and those behind them.
        loss: The share of chunks that are sent again, which takes one more round trip.
        window_bytes: What a connection has on its way: the smaller of the sender's and the
            receiver's buffer. Linux lets them grow to 4 and 6 MiB unless it is told otherwise.
    """

    round_trip_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    window_bytes: int = 1 << 24


class FarBroker(Listening):
    """Listens for *port* of this machine, at the other end of *way*.

    Args:
        port: Of the broker's listener that nobody else uses.
        way: How far away it is.
    """

    def __init__(self, port: int, way: Way) -> None:
        self._way = way
        super().__init__(port)

    def __enter__(self) -> "FarBroker":  # noqa: PYI034 - typing has Self from 3.11
        return self

    def carry(self, client: socket.socket, broker: socket.socket) -> None:
        """Begins to forward between the two."""
        for ends in ((client, broker), (broker, client)):
            for one in ends:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Direction(*ends, self._way).start()


class Direction:
    """One direction of a connection: bytes arrive in order, each after its time.

    Args:
        source: Where they come from.
        target: Where they go.
        way: What lies between the two.
    """

    def __init__(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        self._source, self._target, self._way = source, target, way
        self._travelling: deque[tuple[float, bytes]] = deque()
        self._acknowledged: deque[tuple[float, int]] = deque()
        self._unacknowledged = 0
        self._changed = threading.Condition()
        self._chance = Random(7)  # noqa: S311 - the same way each time

    def start(self) -> None:
        """Begins to carry; it ends when either end closes."""
        for action in (self._depart, self._arrive):
            threading.Thread(target=action, daemon=True).start()

    def _depart(self) -> None:
        arrives_at = 0.0
        with suppress(OSError):
            while data := self._source.recv(CHUNK_BYTES):
                self._await_room()
                arrives_at = max(arrives_at, time.monotonic() + self._travel_s())
                self._put(arrives_at, data)
        self._put(max(arrives_at, time.monotonic() + self._travel_s()), b"")

    def _travel_s(self) -> float:
        way = self._way
        again = way.round_trip_s if self._chance.random() < way.loss else 0.0
        return way.round_trip_s / 2 + self._chance.uniform(0.0, way.jitter_s) + again

    def _put(self, arrives_at: float, data: bytes) -> None:
        with self._changed:
            self._travelling.append((arrives_at, data))
            self._unacknowledged += len(data)
            self._changed.notify_all()

    def _await_room(self) -> None:
        """Returns once the window has room: acknowledgements travel back as long as bytes."""
        with self._changed:
            while self._unacknowledged >= self._way.window_bytes:
                while not self._acknowledged:
                    self._changed.wait()
                back_at, size = self._acknowledged.popleft()
                if (left := back_at - time.monotonic()) > 0:
                    time.sleep(left)
                self._unacknowledged -= size

    def _arrive(self) -> None:
        with suppress(OSError):
            while True:
                with self._changed:
                    while not self._travelling:
                        self._changed.wait()
                    arrives_at, data = self._travelling.popleft()
                if (left := arrives_at - time.monotonic()) > 0:
                    time.sleep(left)
                if not data:
                    break
                self._target.sendall(data)
                with self._changed:
                    back_at = time.monotonic() + self._way.round_trip_s / 2
                    self._acknowledged.append((back_at, len(data)))
                    self._changed.notify_all()
            self._target.shutdown(socket.SHUT_WR)
