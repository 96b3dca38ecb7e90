"""Who may ask: tokens of the role read or write. A file keeps their digests only. Pure."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

Role = Literal["read", "write"]
"""What a caller may do; ``write`` includes ``read``."""

ROLES: Final = get_args(Role)
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BYTES: Final = 32
"""The length of a token: nobody guesses it, so one round of a fast digest is enough."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown that a request is theirs.

    Args:
        name: The name of the token, or of what stands in for one.
        role: What they may do.
    """

    name: str
    role: Role

    @property
    def may_write(self) -> bool:
        """Whether they may change something."""
        return self.role == "write"


@dataclass(frozen=True, slots=True)
class Token:
    """A line of the file: whose token it is, and its digest."""

    caller: Caller
    digest: str

    def line(self) -> str:
        """Returns the line of the file."""
        return f"{self.caller.name}:{self.caller.role}:{self.digest}"


def new_token(name: str, role: Role) -> tuple[Token, str]:
    """Makes a token: what the file keeps, and the secret, which nobody can find out later.

    Raises:
        ValueError: *name* is none; the error says what to write.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a token: use A-Z a-z 0-9 . _ @ -, at most 64")
    secret = secrets.token_urlsafe(_BYTES)
    return Token(Caller(name, role), digest_of(secret)), secret


def digest_of(secret: str) -> str:
    """Returns the digest of a token, in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_tokens(text: str) -> tuple[Token, ...]:
    """Reads the lines ``name:role:sha256`` of a file; empty ones and those after # are left out.

    Raises:
        ValueError: Lists what is wrong, by line. It never quotes a digest.
    """
    tokens: list[Token] = []
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *rest = (part.strip() for part in line.split(":"))
        if not _NAME.fullmatch(name) or len(rest) != 2:  # noqa: PLR2004 - role and digest
            problems.append(f"line {number}: write name:role:sha256, as `replication token` does")
        elif rest[0] not in ROLES:
            problems.append(f"line {number}: {rest[0]!r} is no role; write read or write")
        elif not _DIGEST.fullmatch(rest[1]):
            problems.append(f"line {number}: the digest of {name} must have 64 digits of 0-9 a-f")
        elif any(name == token.caller.name for token in tokens):
            problems.append(f"line {number}: a second token of {name!r}; give it another name")
        else:
            tokens.append(Token(Caller(name, cast("Role", rest[0])), rest[1]))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(tokens)


def find_caller(tokens: Sequence[Token], secret: str) -> Caller | None:
    """Returns whose token *secret* is; None if it is nobody's.

    Each digest is compared, in constant time, so the time of an answer tells nothing.
    """
    digest, found = digest_of(secret), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token.caller
    return found
