"""TLS of `serve`: each connection gets the certificates that the files hold when it comes."""

import ssl
from pathlib import Path
from typing import Any

from replication.config.serve_settings import ServeConfig
from replication.errors import SetupError
from replication.log import Log
from replication.serve.private_files import check_private

log = Log(__name__)

Look = tuple[tuple[int, int, int], ...]
"""What tells that a file was written or replaced: its inode, its time and its size, by file."""


class FollowedCertificates(ssl.SSLContext):
    """A context that follows its files: whoever replaces a certificate starts nothing again.

    Files that cannot be loaded, for example because one of two is written yet, leave the
    certificates as they were, which is said once.

    Args:
        serve: Names the files.

    Raises:
        SetupError: They cannot be loaded.
    """

    def __new__(cls, _: ServeConfig) -> "FollowedCertificates":  # noqa: PYI034 - from 3.11
        """Makes a context for servers."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, serve: ServeConfig) -> None:
        self._serve = serve
        self._files = [file for file in (serve.certificate, serve.key, serve.client_ca) if file]
        self._seen: Look = _look(self._files)
        self._newest = load_certificates(serve)
        self._is_said = False

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - ssl's own
        """Begins a connection with the certificates of now."""
        self._follow()
        return self._newest.wrap_bio(*args, **options)

    def _follow(self) -> None:
        try:
            now = _look(self._files)
            if now == self._seen:
                return
            self._seen = now  # before they are read: what is written meanwhile is read again
            self._newest = load_certificates(self._serve)
        except SetupError as error:
            if not self._is_said:
                text = f"{error}. Connections get the certificates of before"
                log.warning("certificates_kept", text=text)
            self._is_said = True
            return
        self._is_said = False
        log.info("certificates_loaded", text=", ".join(self._files))


def load_certificates(serve: ServeConfig) -> ssl.SSLContext:
    """Returns a context with what the files of *serve* hold.

    Raises:
        SetupError: One cannot be read, others may read the key, or they do not fit together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # or a session outlives the authority that vouched for its client
    check_private("rest.tls.key", serve.key)
    pair = f"rest.tls.certificate ({serve.certificate}) and rest.tls.key ({serve.key})"
    try:
        context.load_cert_chain(serve.certificate, serve.key, _no_password)
    except (OSError, ValueError) as error:
        raise SetupError(
            f"{pair} cannot be loaded: {_reason(error)}; write a certificate and its own key in "
            "PEM, which this user can read"
        ) from error
    if serve.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(serve.client_ca)
        except (OSError, ValueError) as error:
            raise SetupError(
                f"rest.tls.client.ca ({serve.client_ca}) cannot be loaded: {_reason(error)}; write "
                "the certificates of authorities in PEM"
            ) from error
    return context


def _look(files: list[str]) -> Look:
    return tuple(_mark(file) for file in files)


def _mark(file: str) -> tuple[int, int, int]:
    try:
        stat = Path(file).stat()
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _no_password() -> str:
    """Refuses to ask on a terminal, where nobody may be."""
    raise ValueError("the key is encrypted, and nobody can be asked for its password")


def _reason(error: Exception) -> str:
    name = getattr(error, "reason", None)  # of OpenSSL, such as KEY_VALUES_MISMATCH
    words = name.replace("_", " ").lower() if name else getattr(error, "strerror", None)
    return words or str(error)
