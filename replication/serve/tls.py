"""TLS of `serve`: each connection gets the certificates that the files hold when it comes."""

import ssl
from typing import Any

from replication.config.serve_settings import ServeConfig
from replication.errors import SetupError
from replication.log import Log
from replication.serve.followed import Followed
from replication.serve.private_files import check_private

log = Log(__name__)


class FollowedCertificates(ssl.SSLContext):
    """A context that follows its files: whoever replaces a certificate starts nothing again.

    Args:
        serve: Names the files.

    Raises:
        SetupError: They cannot be loaded.
    """

    def __new__(cls, _: ServeConfig) -> "FollowedCertificates":  # noqa: PYI034 - from 3.11
        """Makes a context for servers."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, serve: ServeConfig) -> None:
        self._followed = Followed(
            [file for file in (serve.certificate, serve.key, serve.client_ca) if file],
            lambda: load_certificates(serve),
            loaded=lambda files: log.info("certificates_loaded", text=files),
            kept=lambda reason: log.warning(
                "certificates_kept", text=f"{reason}. Connections get the certificates of before"
            ),
        )

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - ssl's own
        """Begins a connection with the certificates of now."""
        return self._followed.now().wrap_bio(*args, **options)


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


def _no_password() -> str:
    """Refuses to ask on a terminal, where nobody may be."""
    raise ValueError("the key is encrypted, and nobody can be asked for its password")


def _reason(error: Exception) -> str:
    name = getattr(error, "reason", None)  # of OpenSSL, such as KEY_VALUES_MISMATCH
    words = name.replace("_", " ").lower() if name else getattr(error, "strerror", None)
    return words or str(error)
