"""An S3 server on this machine: moto's, in an environment of its own. MOTO_SERVER names it."""

import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from replication.demo.brokers import HOST, Watchdog, free_port
from tests.support.waiting import wait_until

MOTO = os.environ.get("MOTO_SERVER") or shutil.which("moto_server")
BUCKET = "state"
SETTINGS = {
    "fs.s3a.endpoint.region": "us-east-1",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.access.key": "access",
    "fs.s3a.secret.key": "secret",
    "fs.s3a.connection.ssl.enabled": "false",
}


EVEN = re.compile(r"/_delta_log/\d+[02468]\.json")


class _PassesOn(BaseHTTPRequestHandler):
    """Passes requests on to a server."""

    without = ""  # the name of a header

    def _loses_answer(self) -> bool:
        return False

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() != self.without}
        behind = HTTPConnection(HOST, self.server.server_port_behind, timeout=30)  # type: ignore[attr-defined]
        with closing(behind) as server:
            server.request(self.command, self.path, body, headers)
            answer = server.getresponse()
            content = answer.read()
        if self._loses_answer():
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of the library

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class _Forgetful(_PassesOn):
    """Passes requests on without the condition, as a server that does not know it."""

    without = "if-none-match"


class _Lossy(_PassesOn):
    """The first answers to every other commit are lost, as with a connection that breaks."""

    def _loses_answer(self) -> bool:
        lost: set[str] = self.server.lost  # type: ignore[attr-defined]
        if self.command == "PUT" and EVEN.search(self.path) and self.path not in lost:
            lost.add(self.path)
            return True
        return False


@contextmanager
def forgetful(url: str) -> Iterator[str]:
    """The address of a server before *url* that knows no conditional put, for the block."""
    with _served(url, _Forgetful) as (address, _):
        yield address


@contextmanager
def lossy(url: str) -> Iterator[tuple[str, set[str]]]:
    """The address of a server before *url* that loses answers to commits, and to which."""
    with _served(url, _Lossy) as served:
        yield served


@contextmanager
def _served(url: str, handler: type[_PassesOn]) -> Iterator[tuple[str, set[str]]]:
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        server.lost = lost = set[str]()  # type: ignore[attr-defined]
        server.server_port_behind = int(url.rpartition(":")[2])  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}", lost
        server.shutdown()


@contextmanager
def s3_server(folder: Path) -> Iterator[Mapping[str, str]]:
    """Hadoop's settings for a server with an empty bucket, for the block."""
    if not MOTO:
        pytest.skip("needs moto's server in an environment of its own: pip install 'moto[server]'")
    port = free_port()
    url = f"http://{HOST}:{port}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([str(MOTO), "-H", HOST, "-p", str(port)], stdout=log, stderr=log)
    watchdog = Watchdog(server.pid, signal.SIGKILL)
    anybody = {"x-amz-acl": "public-read-write"}  # a test damages objects without signing
    request = urllib.request.Request(f"{url}/{BUCKET}", headers=anybody, method="PUT")  # noqa: S310 - our own server

    def is_made() -> bool:
        with suppress(OSError), urllib.request.urlopen(request, timeout=5):  # noqa: S310
            return True
        return False

    try:
        wait_until(is_made, 60)
        yield {**SETTINGS, "fs.s3a.endpoint": url}
    finally:
        watchdog.dismiss()
        server.kill()
        server.wait()
