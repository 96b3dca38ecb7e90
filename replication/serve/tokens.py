"""Who may ask: tokens of the role read or write. A file keeps their digests only. Pure."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar, cast, get_args

from replication.errors import SetupError
from replication.log import Log

log = Log(__name__)

# What files hold now, for a server that nobody wants to start again when one is replaced.

_Value = TypeVar("_Value")

Look = tuple[tuple[int, int, int], ...]
"""What tells that a file was written or replaced: its inode, its time and its size, by file."""


class Followed(Generic[_Value]):
    """What *load* makes of files, anew when one of them has changed.

    Files that cannot be loaded, for example because one of two is written yet, leave the value as
    it was, which is said once.

    Args:
        files: Which.
        load: Makes the value.
        loaded: Is told the files, when their new content counts.
        kept: Is told why it does not.

    Raises:
        SetupError: They cannot be loaded.
    """

    def __init__(
        self,
        files: Sequence[str],
        load: Callable[[], _Value],
        *,
        loaded: Callable[[str], None],
        kept: Callable[[str], None],
    ) -> None:
        self._files = files
        self._load = load
        self._loaded = loaded
        self._kept = kept
        self._seen = _look(files)
        self._newest = load()
        self._is_said = False

    def now(self) -> _Value:
        """Returns the value of the files as they are."""
        seen = _look(self._files)
        if seen == self._seen:
            return self._newest
        self._seen = seen  # before they are read: what is written meanwhile is read again
        try:
            self._newest = self._load()
        except SetupError as error:
            if not self._is_said:
                self._kept(str(error))
            self._is_said = True
            return self._newest
        self._is_said = False
        self._loaded(", ".join(self._files))
        return self._newest


def _look(files: Sequence[str]) -> Look:
    return tuple(_mark(file) for file in files)


def _mark(file: str) -> tuple[int, int, int]:
    try:
        stat = Path(file).stat()
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


_OTHERS_MAY_READ: Final = 0o004


def check_private(key: str, file: str) -> None:
    """Checks that not every user of this machine may read *file*, which the setting *key* names."""
    try:
        mode = Path(file).stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"{key}: {file} cannot be read: {reason}") from error
    if mode & _OTHERS_MAY_READ:
        raise SetupError(
            f"{key}: every user of this machine may read {file}; chmod o= {file} (in a Secret of "
            "Kubernetes: defaultMode: 0440, and fsGroup)"
        )


Role = Literal["read", "write"]
"""What a caller may do; ``write`` includes ``read``."""

ROLES: Final = get_args(Role)
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BYTES: Final = 32
"""The length of a token: nobody guesses it, so one round of a fast digest is enough."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown that a request is theirs, by a token or what stands in for one."""

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


Tokens = Callable[[], tuple[Token, ...]]
"""Tells which tokens count now."""


def follow_tokens(file: str) -> Tokens | None:
    """Returns what tells the tokens of *file* as it is now; None if the name is empty.

    A file that somebody damages leaves the tokens as they were; one without a token lets nobody in.
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
    """Reads the file of tokens."""
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
