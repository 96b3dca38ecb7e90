"""Calls from Python into Java whose answers are lost."""

import socket
import threading
from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaMember
from py4j.protocol import Py4JError

from replication.java import once


@pytest.fixture
def calls() -> Iterator[tuple[int, list[bytes]]]:
    """The port of a JVM that takes calls and answers none, and what it has taken."""
    taken: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                taken.append(b"".join(iter(lines.readline, b"e\n")))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], taken
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_call_that_writes_is_not_made_again_where_its_answer_is_lost(
    calls: tuple[int, list[bytes]],
) -> None:
    port, taken = calls
    client = JavaGateway(gateway_parameters=GatewayParameters(port=port))._gateway_client  # noqa: SLF001 - the only way
    write = JavaMember("write", None, "z:replication.calls.SingleRecord", client)

    with pytest.raises(Py4JError):
        once(write)("topic", 7)

    assert taken == [b"c\nz:replication.calls.SingleRecord\nwrite\nstopic\ni7\n"]
    with pytest.raises(Py4JError):
        write("topic", 7)
    assert len(taken) == 1 + 2, "which py4j does of its own accord"
