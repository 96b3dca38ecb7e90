"""A TCP proxy in front of a broker. A test can cut it: no byte passes, and nothing is closed."""

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running

CHUNK_BYTES = 1 << 16
LENGTH_BYTES = 4  # before each request of Kafka's protocol


class NextIsSent:
    """Holds back the answer to a request until the next request of its kind was passed on, once.

    So it does not depend on the machine that a producer has more on its way when a batch fails.

    Args:
        first: Bytes that the request has whose answer is held back.
        following: Bytes that each request of its kind has.
    """

    def __init__(self, first: bytes, following: bytes) -> None:
        self._first, self._following = first, following
        self._is_found = False
        self._may_answer = threading.Event()
        self._may_answer.set()

    @property
    def was_sent(self) -> bool:
        """Whether a request was passed on behind the one that was not answered yet."""
        return self._is_found and self._may_answer.is_set()

    @property
    def is_held(self) -> bool:
        """Whether an answer is held back."""
        return not self._may_answer.is_set()

    def await_answer(self) -> None:
        """Returns once answers may pass."""
        self._may_answer.wait()

    def requests(self, client: socket.socket) -> Iterator[bytes]:
        """Whole requests. An answer to what was yielded may pass after the next step."""
        with client.makefile("rb") as stream:
            while len(length := stream.read(LENGTH_BYTES)) == LENGTH_BYTES:
                request = stream.read(int.from_bytes(length, "big"))
                is_behind = self._is_found and self._following in request
                if not self._is_found and self._first in request:
                    self._may_answer.clear()
                    self._is_found = True
                    request = self.changed(request)
                yield length + request
                if is_behind:
                    self._may_answer.set()

    def changed(self, request: bytes) -> bytes:
        """What is passed on in place of the request whose answer is held back."""
        return request


class FirstIsRefused(NextIsSent):
    """Damages the first request with *value* in a record: the broker refuses it, to be sent again.

    Its answer is held back until the next one was passed on, or until `release`.
    """

    def __init__(self, value: bytes) -> None:
        super().__init__(first=value, following=value)
        self._value = value

    def changed(self, request: bytes) -> bytes:
        """The request, of which a batch fails its check."""
        return request.replace(self._value, self._value[::-1], 1)

    def release(self) -> None:
        """Lets the answer pass."""
        self._may_answer.set()


class Listening(AbstractContextManager["Listening"]):
    """Accepts connections for a broker of this machine, and connects to it for each.

    Args:
        port: Of the broker's listener that nobody else uses.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        for one in (self._server, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"{HOST}:{self._server.getsockname()[1]}"

    def carry(self, client: socket.socket, broker: socket.socket) -> None:
        """Begins to forward between the two."""
        raise NotImplementedError

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._open.append(client)
                try:
                    broker = socket.create_connection((HOST, self._target))
                except OSError:  # the broker is down
                    client.close()
                    continue
                self._open.append(broker)
                self.carry(client, broker)


class Proxy(Listening):
    """Forwards connections to *port* of this machine until `cut`; `heal` forwards again.

    Args:
        port: Of the broker's listener that nobody else uses.
        holding: Holds back answers.
    """

    def __init__(self, port: int, holding: NextIsSent | None = None) -> None:
        self._holding = holding
        self._flows = threading.Event()
        self._flows.set()
        self._loses = False
        super().__init__(port)

    def __enter__(self) -> "Proxy":  # noqa: PYI034 - typing has Self from 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._flows.set()
        super().__exit__()

    def cut(self, *, loses: bool = False) -> None:
        """Holds back all bytes, as a broken network does.

        Args:
            loses: Whether what is held back is lost, and its connection with it: no sender is left
                that would repeat it.
        """
        self._loses = loses
        self._flows.clear()

    def heal(self) -> None:
        """Forwards again, first what was held back and is not lost."""
        self._flows.set()

    def carry(self, client: socket.socket, broker: socket.socket) -> None:
        """Begins to forward between the two."""
        for action in (self._ask, self._answer):
            threading.Thread(target=action, args=(client, broker), daemon=True).start()

    def _ask(self, client: socket.socket, broker: socket.socket) -> None:
        self._forward(self._holding.requests(client) if self._holding else chunks(client), broker)

    def _answer(self, client: socket.socket, broker: socket.socket) -> None:
        self._forward(self._held(chunks(broker)), client)

    def _held(self, answers: Iterator[bytes]) -> Iterator[bytes]:
        for answer in answers:
            if self._holding:
                self._holding.await_answer()
            yield answer

    def _forward(self, data: Iterator[bytes], target: socket.socket) -> None:
        with suppress(OSError):
            for some in data:
                if not self._flows.is_set():
                    self._flows.wait()
                    if self._loses:
                        break
                target.sendall(some)
            target.shutdown(socket.SHUT_WR)


def chunks(source: socket.socket) -> Iterator[bytes]:
    """What comes, as it comes."""
    while data := source.recv(CHUNK_BYTES):
        yield data


@contextmanager
def proxied_broker(
    alias: str, folder: Path, settings: BrokerSettings, holding: NextIsSent | None = None
) -> Iterator[tuple[Broker, Proxy]]:
    """A broker that runs, and the proxy in front of a second listener of it."""
    behind = free_port()
    with Proxy(behind, holding) as proxy:
        broker = broker_with_listener(alias, folder, settings, f"{HOST}:{behind}", proxy.bootstrap)
        with running(broker):
            yield broker, proxy
            broker.kill()  # nobody reads its data again


def broker_with_listener(
    alias: str, folder: Path, settings: BrokerSettings, second: str, advertised: str
) -> Broker:
    """A broker that also listens at *second*, whose clients are told the address *advertised*."""
    port, controller = free_port(), free_port()
    listeners = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SECOND://{second},"
        f"CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},SECOND://{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    both = replace(settings, properties={**settings.properties, **listeners})
    return Broker(alias, folder, both, ports=iter([port, controller]).__next__)
