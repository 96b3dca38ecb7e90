"""An OAuth token endpoint: hands out JSON Web Tokens that it signs with a key of its own."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from replication.demo.brokers import HOST

CLIENT_ID: Final = "mirror"
CLIENT_SECRET: Final = "of-the-token-endpoint-5d"  # noqa: S105 - of nothing but this endpoint
KEY_ID: Final = "tests"
LIFETIME_SECONDS: Final = 3600
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property: which URLs a configuration may name. Without it 4.0 allows none."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The running endpoint. ``issued`` counts the tokens that it has handed out."""

    url: str
    jwks: Path
    issued: list[float] = field(default_factory=list)


@contextmanager
def token_endpoint(folder: Path) -> Iterator[Tokens]:
    """The endpoint, for the block; *folder* gets its key, and the public key for brokers."""
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "tokens.key"
    _openssl("genrsa", "-out", str(key), "2048")
    jwks = folder / "jwks.json"
    jwks.write_text(json.dumps({"keys": [_public_key(key)]}))
    issued: list[float] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {basic}":
                self.send_error(401, "unknown client")
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            issued.append(time.time())
            answer = {
                "access_token": _token(key),
                "token_type": "Bearer",
                "expires_in": LIFETIME_SECONDS,
            }
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: pytest shows what fails."""

    server = ThreadingHTTPServer((HOST, 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Tokens(f"http://{HOST}:{server.server_port}/token", jwks, issued)
    finally:
        server.shutdown()
        server.server_close()


def _token(key: Path) -> str:
    now = int(time.time())
    claims = {"sub": CLIENT_ID, "scope": "kafka", "iat": now, "exp": now + LIFETIME_SECONDS}
    signed = f"{_part({'alg': 'RS256', 'kid': KEY_ID})}.{_part(claims)}"
    signature = _openssl("dgst", "-sha256", "-sign", str(key), content=signed.encode())
    return f"{signed}.{_encoded(signature)}"


def _public_key(key: Path) -> dict[str, str]:
    """The public part of *key*, as RFC 7517 writes it; openssl's exponent is always 65537."""
    modulus = _openssl("rsa", "-in", str(key), "-noout", "-modulus").decode()
    number = bytes.fromhex(modulus.strip().partition("=")[2])
    kind = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256"}
    return {**kind, "n": _encoded(number), "e": _encoded(b"\x01\x00\x01")}


def _part(content: Mapping[str, object]) -> str:
    return _encoded(json.dumps(content).encode())


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _openssl(*words: str, content: bytes = b"") -> bytes:
    command = ["openssl", *words]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout
