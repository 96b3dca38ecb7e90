"""What a cluster's addresses answer, and how long one that does not answer is waited for."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from select import select
from typing import Any

import pytest

from replication.demo.brokers import HOST, free_port
from replication.kafka import reach
from replication.kafka.reach import MuteServers, Reach, Silence, with_answering_servers
from tests.support.gate.clock import Limit
from tests.support.waiting import in_time, wait_until

ANSWER = struct.pack(">ihi", 1, 0, 0)


class Listener:
    """Takes connections at a port of this machine; a test says what it does with them."""

    def __init__(self, port: int = 0) -> None:
        self._server = socket.create_server((HOST, port))
        self.address = f"{HOST}:{self._server.getsockname()[1]}"
        self.answer: bytes | None = ANSWER
        self.is_closing, self.asked = False, 0
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for one in (self._server, *self.kept):
            one.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._server.accept()[0]
                self.kept.append(connection)
                self.asked += 1
                if self.is_closing:
                    connection.close()
                elif self.answer is not None:
                    connection.recv(100)
                    connection.sendall(struct.pack(">i", len(self.answer)) + self.answer)


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(reach, "LOOK_SECONDS", 0.1)


def closed() -> str:
    return f"{HOST}:{free_port()}"


def test_an_address_that_answers_is_enough(listener: Listener) -> None:
    servers = f"{closed()}, PLAINTEXT://{listener.address}"

    assert Reach(servers, is_tls=False).look() is None


def test_each_address_says_what_it_met(listener: Listener) -> None:
    listener.is_closing = True
    refused = closed()
    servers = f"{refused},no.such.host.invalid:9092,{listener.address}"

    silence = Reach(servers, is_tls=False).look()

    assert silence is not None
    assert silence.code == "_TRANSPORT"
    assert silence.is_open
    first, second, third = silence.text.split("; ")
    assert first == f"{refused}: connection refused"
    assert second.startswith("no.such.host.invalid:9092: unknown host (")
    assert third == f"{listener.address}: closed the connection, or is no broker"


@pytest.mark.usefixtures("quick")
def test_what_keeps_the_connection_and_says_nothing_has_timed_out(listener: Listener) -> None:
    listener.answer = None
    for is_tls in (False, True):
        found = Reach(listener.address, is_tls=is_tls).look()

        assert found == Silence("_TIMED_OUT", f"{listener.address}: timed out")


@pytest.mark.usefixtures("quick")
def test_a_connection_that_is_never_made_has_timed_out() -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server((HOST, 0), backlog=0))
        address = f"{HOST}:{full.getsockname()[1]}"
        for _ in range(2):  # what waits to be accepted leaves no room
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())

        assert Reach(address, is_tls=False).look() == Silence("_TIMED_OUT", f"{address}: timed out")


def test_a_name_that_nobody_knows_is_told_from_a_port_that_nobody_has() -> None:
    silence = Reach("no.such.host.invalid:9092", is_tls=False).look()

    assert silence is not None
    assert silence.code == "_RESOLVE"


@pytest.mark.usefixtures("quick")
def test_a_name_server_that_does_not_answer_is_told_from_a_broker_that_does_not(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = socket.getaddrinfo, threading.Event()

    def wait(host: str, *rest: int, **options: int) -> object:
        if host == "late.invalid":
            answers.wait(10)
        return asked(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    listener.answer = None

    alone = Reach("late.invalid:9092", is_tls=False).look()
    both = Reach(f"late.invalid:9092,{listener.address}", is_tls=False).look()
    answers.set()

    assert alone is not None
    assert (alone.code, "no name server has answered" in alone.text) == ("_RESOLVE", True)
    assert both is not None
    assert f"{listener.address}: timed out" in both.text
    assert both.code == "_TIMED_OUT"


@pytest.mark.parametrize("is_mute", [False, True])
def test_a_look_asks_the_name_server_once_and_then_all_that_it_names(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, *, is_mute: bool
) -> None:
    asked, names = socket.getaddrinfo, list[str]()

    def resolve(host: str, port: int, *rest: Any, **options: Any) -> list[object]:  # noqa: ANN401
        if host != "broker.invalid":
            return [*asked(host, port, *rest, **options)]
        names.append(host)
        ports = (closed().rpartition(":")[2], port)  # the first of its addresses refuses
        return [found for one in ports for found in asked(HOST, one, *rest, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    address = listener.address.replace(HOST, "broker.invalid")
    if is_mute:
        listener.answer = b""

    silence = Reach(address, is_tls=False).look()

    assert names == ["broker.invalid"]
    assert (silence is None) is not is_mute


def test_a_connection_that_is_reset_before_tls_is_closed(listener: Listener) -> None:
    listener.answer = None
    host, port = listener.address.split(":")
    plain = socket.create_connection((host, int(port)))
    wait_until(lambda: listener.kept, 5)
    listener.kept[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    listener.kept[0].close()
    wait_until(lambda: select([plain], [], [], 0)[0], 5)

    with pytest.raises(OSError, match="reset"):  # a warning that it was not closed would fail
        reach.anonymous_tls().wrap_socket(plain)


def test_a_listener_that_refuses_our_kind_of_tls_answers(listener: Listener) -> None:
    alert = b"\x15\x03\x03\x00\x02\x02\x28"  # a fatal handshake_failure
    listener.answer = None

    def refuse() -> None:
        while not listener.kept:
            time.sleep(0.01)
        listener.kept[0].sendall(alert)

    threading.Thread(target=refuse, daemon=True).start()

    assert Reach(listener.address, is_tls=True).look() is None


@pytest.mark.usefixtures("quick")
def test_a_cluster_is_given_up_after_the_bound_and_then_at_once() -> None:
    both = Reach(closed(), is_tls=False)
    started = time.monotonic()

    assert both.await_answer(0.5) is not None
    assert time.monotonic() - started >= 0.5
    with in_time(0.25, "an answer that is known"):
        assert both.await_answer(0.5) is not None


@pytest.mark.usefixtures("quick")
def test_a_cluster_that_comes_back_within_the_bound_is_not_given_up() -> None:
    port = free_port()
    one = Reach(f"{HOST}:{port}", is_tls=False)
    assert one.look() is not None
    assert one.given_up(60.0) is None

    listener = Listener(port)
    try:
        assert one.await_answer(60.0) is None
        assert one.given_up(0.0) is None
        assert one.is_open
    finally:
        listener.close()


@pytest.mark.usefixtures("quick")
def test_an_old_silence_says_nothing_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "FRESH_SECONDS", 0.9)
    one = Reach(closed(), is_tls=False)
    one.look()
    assert one.given_up(0.0) is not None
    time.sleep(1)  # the time after which it is old, as a rule of its own

    assert one.given_up(0.0) is None
    one.look()
    assert one.given_up(0.95) is None, "the silence began anew"


def test_who_has_just_answered_is_not_asked(listener: Listener) -> None:
    one = Reach(listener.address, is_tls=False)
    one.answered()

    assert one.await_answer() is None
    assert listener.asked == 0


def test_a_new_client_begins_without_addresses_that_are_mute(listener: Listener) -> None:
    mute = Listener()
    mute.answer = None
    refusing = closed()
    servers = f"{refusing},{listener.address}, {mute.address}"
    try:
        begun = with_answering_servers({"bootstrap.servers": servers, "client.id": "c"})
    finally:
        mute.close()

    left = f"{refusing},{listener.address}"
    assert begun == {"bootstrap.servers": left, "client.id": "c"}, "it may be the only one later"


@pytest.mark.usefixtures("quick")
def test_an_address_that_was_mute_takes_over_once_no_other_answers(listener: Listener) -> None:
    late = Listener()
    try:
        servers = {"bootstrap.servers": f"{listener.address}, {late.address}"}
        mute = MuteServers(servers, {"bootstrap.servers": listener.address})
        limit = Limit(10)
        while late.asked < 2:
            assert not mute.have_taken_over(), "the other answers, too"
            assert not limit.is_over
        listener.is_closing = True
        wait_until(mute.have_taken_over, 10)
        assert not MuteServers(servers, servers).have_taken_over(), "none was left out"
    finally:
        late.close()


@pytest.mark.usefixtures("quick")
def test_a_new_client_keeps_its_addresses_if_none_answers() -> None:
    servers = f"{closed()},{closed()}"

    assert with_answering_servers({"bootstrap.servers": servers})["bootstrap.servers"] == servers
