"""The file of tokens: who is in it may ask, from the next request on."""

from collections.abc import Callable
from pathlib import Path

from replication.errors import SetupError
from replication.log import Log
from replication.serve.followed import Followed
from replication.serve.private_files import check_private
from replication.serve.tokens import Token, parse_tokens

log = Log(__name__)

Tokens = Callable[[], tuple[Token, ...]]
"""Tells which tokens count now."""


def follow_tokens(file: str) -> Tokens | None:
    """Returns what tells the tokens of *file* as it is now; None if the name is empty.

    A file that somebody damages leaves the tokens as they were; one without a token lets nobody in.

    Raises:
        SetupError: It cannot be read, others may read it, a line is none, or there is no token.
    """
    if not file:
        return None
    if not read_tokens(file):
        raise SetupError(
            f"rest.tokens.file: {file}: there is no token; make one: replication token NAME "
            "--role read"
        )
    return Followed(
        [file],
        lambda: read_tokens(file),
        loaded=lambda text: log.info("tokens_loaded", text=text),
        kept=lambda reason: log.warning(
            "tokens_kept", text=f"{reason}. The tokens of before count"
        ),
    ).now


def read_tokens(file: str) -> tuple[Token, ...]:
    """Reads the file of tokens.

    Raises:
        SetupError: It cannot be read, others may read it, or a line is none.
    """
    check_private("rest.tokens.file", file)
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"rest.tokens.file: {file} cannot be read: {reason}") from error
    try:
        return parse_tokens(text)
    except ValueError as error:
        raise SetupError(f"rest.tokens.file: {file}: {error}") from error
