"""A TCP proxy in front of a broker. A test can cut it: no byte passes, and nothing is closed."""

import socket
import threading
from contextlib import AbstractContextManager, suppress

from replication.demo.ports import HOST

CHUNK_BYTES = 1 << 16


class Proxy(AbstractContextManager["Proxy"]):
    """Forwards connections to *port* of this machine until `cut`; `heal` forwards again."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server((HOST, 0))
        self._flows = threading.Event()
        self._flows.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._flows.set()
        for one in (self._server, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return int(self._server.getsockname()[1])

    def cut(self) -> None:
        """Holds back all bytes, as a broken network does."""
        self._flows.clear()

    def heal(self) -> None:
        """Forwards again, first what was held back."""
        self._flows.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection((HOST, self._target))
                self._open += client, broker
                for pair in ((client, broker), (broker, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._flows.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
