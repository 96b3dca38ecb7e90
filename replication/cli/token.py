"""``token``: makes a token for REST and pages."""

import errno
import os
from pathlib import Path

import click

from replication.cli.options import echo, known_errors
from replication.errors import ConfigError, StateError
from replication.serve.tokens import ROLES, Role, new_token, parse_tokens


@click.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="read",
    show_default=True,
    help="What it allows; write includes read.",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False),
    help="The file of rest.tokens.file, to which the token's line is added.",
)
@known_errors
def token(name: str, role: Role, file: str | None) -> None:
    """Make a token for `serve`, and print it once.

    The file of rest.tokens.file gets its digest only, so nobody can find it out later. A line that
    is removed from the file ends its token when serve starts again.
    """
    try:
        made, secret = new_token(name, role)
        if file is not None:
            _add(Path(file), made.line())
    except ValueError as error:
        raise ConfigError(file or "the command line", [str(error)]) from error
    if file is None:
        echo(f"# add this line to the file of rest.tokens.file:\n{made.line()}", err=True)
    echo(secret)


def _add(file: Path, line: str) -> None:
    """Appends *line* to *file*, which stays whose it is; only its owner may read a new one.

    Raises:
        ValueError: There are lines that are none, or a token of that name.
        StateError: It cannot be written.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as out:
            before = out.read()
            begin = b"" if before.endswith(b"\n") or not before else b"\n"
            added = begin + line.encode() + b"\n"
            parse_tokens((before + added).decode("utf-8-sig"))
            if out.write(added) != len(added):
                out.truncate(len(before))  # a half line would keep `serve` from starting
                raise StateError(f"{file} cannot be written: {os.strerror(errno.ENOSPC)}")
    except OSError as error:
        raise StateError(f"{file} cannot be written: {error.strerror}") from error
