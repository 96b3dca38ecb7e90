"""Stands in for a container engine: what a client asks of it is done by processes.

It knows one image, Kafka's own, and starts it as the image does: Kafka's class for it makes
``server.properties`` of the variables, and the broker starts with that.
"""

import json
import os
import re
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

from replication.demo.brokers import LOG4J, BrokerSettings, start_child

VERSION: Final = {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "27.0"}


def setup_of(default: Path, mounted: Path, final: Path) -> list[str]:
    """Kafka's class that the image runs first: it writes ``server.properties`` into *final*."""
    folders = {"default": default, "mounted": mounted, "final": final}
    options = [
        word for name, folder in folders.items() for word in (f"--{name}-configs-dir", str(folder))
    ]
    return ["kafka.docker.KafkaDockerWrapper", "setup", *options]


@dataclass(slots=True)
class Container:
    """One container: its folder is its file system."""

    folder: Path
    settings: BrokerSettings
    environment: Mapping[str, str]
    ports: Mapping[str, Any]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def status(self) -> str:
        """The engine's word for its state."""
        if self.process is None:
            return "created"
        return "running" if self.process.poll() is None else "exited"

    def start(self) -> None:
        """Starts the broker as the image does."""
        folders = [self.folder / name for name in ("default", "mounted", "final")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        log4j = self.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        own = {**self.environment, "KAFKA_LOG_DIRS": str(self.folder / "data")}
        setup = self.settings.java(log4j, *setup_of(*folders))
        done = subprocess.run(setup, env={**os.environ, **own}, capture_output=True, check=False)
        output = done.stdout + done.stderr
        assert done.returncode == 0 or b"already formatted" in output.lower(), output.decode()
        server = str(self.folder / "final" / "server.properties")
        with (self.folder / "log").open("ab") as log:
            self.process = start_child(self.settings.java(log4j, "kafka.Kafka", server), log)

    def end(self, number: signal.Signals) -> None:
        """Sends a signal, and returns when the process has ended."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()


@dataclass(slots=True)
class Engine:
    """The containers that clients have created."""

    folder: Path
    settings: BrokerSettings
    containers: dict[str, Container] = field(default_factory=dict)

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[HTTPStatus, Any]:
        """Status and content for a request; a text is sent as it is."""
        if path.endswith("/_ping"):
            return HTTPStatus.OK, "OK"
        if path.endswith("/version"):
            return HTTPStatus.OK, VERSION
        if re.search(r"/images/.*/json$", path):
            return HTTPStatus.OK, {"Id": "sha256:0"}
        if path.endswith("/containers/create"):
            name = f"{len(self.containers):064x}"
            variables = dict(line.split("=", 1) for line in body["Env"])
            ports = body["HostConfig"]["PortBindings"]
            container = Container(self.folder / name, self.settings, variables, ports)
            self.containers[name] = container
            return HTTPStatus.CREATED, {"Id": name}
        found = re.search(r"/containers/([0-9a-f]+)/(\w+)", path)
        if found is None:
            return HTTPStatus.NOT_FOUND, {"message": f"not known here: {method} {path}"}
        return self._ask(found[1], found[2])

    def _ask(self, name: str, what: str) -> tuple[HTTPStatus, Any]:
        container = self.containers[name]
        match what:
            case "json":
                state = {"Status": container.status}
                return HTTPStatus.OK, {"Id": name, "State": state, "Config": {"Tty": True}}
            case "start":
                container.start()
            case "kill":
                container.end(signal.SIGKILL)
            case "stop":
                container.end(signal.SIGTERM)
            case "wait":
                return HTTPStatus.OK, {"StatusCode": 0}
            case "logs":
                return HTTPStatus.OK, (container.folder / "log").read_text()
        return HTTPStatus.NO_CONTENT, ""


@contextmanager
def running_engine(socket: Path, folder: Path, settings: BrokerSettings) -> Iterator[Engine]:
    """An engine at *socket* for the block, with the jars of *settings* in its image."""
    engine = Engine(folder, settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else {}
            status, answer = engine.answer(self.command, self.path.partition("?")[0], body)
            data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _reply  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    with socketserver.ThreadingUnixStreamServer(str(socket), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield engine
        finally:
            server.shutdown()
            for container in engine.containers.values():
                container.end(signal.SIGKILL)
