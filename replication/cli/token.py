"""``token``: makes a token for REST and pages."""

import os
from pathlib import Path

import click

from replication.cli.options import known_errors
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
        click.echo(f"# add this line to the file of rest.tokens.file:\n{made.line()}", err=True)
    click.echo(secret)


def _add(file: Path, line: str) -> None:
    """Adds *line* to *file*, which only its owner may read.

    Raises:
        ValueError: There are lines that are none, or a token of that name.
        StateError: It cannot be written.
    """
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        text = f"{before.rstrip()}\n{line}\n".lstrip()
        parse_tokens(text)
        part = file.with_name(f"{file.name}.part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
        part.replace(file)
    except OSError as error:
        raise StateError(f"{file} cannot be written: {error.strerror}") from error
