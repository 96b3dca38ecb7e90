"""A proxy that answers paths with a prefix, which it takes away."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def prefixing(host: str, prefix: str) -> Iterator[str]:
    """Yields the address of a proxy for the server at *host*."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # a browser does not like connections that end each time

        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            headers = {**dict(self.headers), "Connection": "close"}
            with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
                connection.request("GET", self.path.removeprefix(prefix), headers=headers)
                answer = connection.getresponse()
                body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "date", "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64  # a browser asks for much at once
        daemon_threads = True  # connections are kept
        block_on_close = False

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="proxy")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
