"""Brokers in containers: without an engine, one line says what was tried and what to do."""

import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.containers import (
    INSTALL,
    VARIABLE,
    check_engine,
    environment,
    in_containers,
)
from tests.support.local import REPOSITORY


class Deaf(socketserver.StreamRequestHandler):
    """Ends each connection without an answer."""

    def handle(self) -> None:
        self.rfile.readline()


class Starting(socketserver.StreamRequestHandler):
    """Answers each request as an engine that cannot serve it."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        text = b'{"message": "the engine is starting"}'
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(text)}\r\n\r\n"
        self.wfile.write(head.encode() + text)


@contextmanager
def listening(path: Path, handler: type[socketserver.BaseRequestHandler]) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine's socket should be."""
    pytest.importorskip("testcontainers", reason=INSTALL)
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    return path


def refusal() -> str:
    with pytest.raises(pytest.UsageError) as caught:
        check_engine()
    (line,) = str(caught.value).splitlines()
    return line


def test_no_socket(socket: Path) -> None:
    line = refusal()

    assert f"no container engine answers at unix://{socket} (" in line
    assert "No such file or directory" in line
    assert line.endswith(
        "start one, set DOCKER_HOST to its socket, or leave out "
        "REPLICATION_TEST_BROKERS for brokers as processes"
    )


@pytest.mark.parametrize(
    ("handler", "reason"),
    [(Deaf, "Connection aborted"), (Starting, "the engine is starting")],
)
def test_a_socket_without_an_engine(
    socket: Path, handler: type[socketserver.BaseRequestHandler], reason: str
) -> None:
    with listening(socket, handler):
        line = refusal()

    assert f"no container engine answers at unix://{socket} (" in line
    assert reason in line


def test_without_testcontainers_pytest_ends_at_once_with_the_command_that_installs_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "__init__.py").touch()  # hides an installed one
    environ = {**os.environ, VARIABLE: "docker", "PYTHONPATH": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/unit/test_errors.py"],
        env=environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert ended.stderr.strip() == (
        "ERROR: REPLICATION_TEST_BROKERS=docker needs testcontainers (No module named "
        "'docker.errors'): ./tests/run.sh or ./spark-submit.sh --setup docker installs it"
    )


def test_another_value_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "podman")

    with pytest.raises(pytest.UsageError, match="=podman is unknown; write docker, or leave"):
        in_containers()


def test_the_broker_tells_clients_the_port_that_the_machine_forwards() -> None:
    variables = environment(4711, "id", {"message.max.bytes": "1"})

    assert variables["KAFKA_LISTENERS"].startswith("PLAINTEXT://0.0.0.0:4711,")
    assert variables["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:4711"
    assert variables["KAFKA_MESSAGE_MAX_BYTES"] == "1"
