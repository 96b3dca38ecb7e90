"""Serves pages and REST, and makes the tokens for them."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Final

import click

from replication.cli.options import CLUSTERS, FILE, echo, known_errors
from replication.config.file import load_config
from replication.config.metrics_settings import serve_problems
from replication.errors import ConfigError, SetupError, StateError
from replication.log import SCRIPT_FORMAT, configure
from replication.serve.tokens import ROLES, Role, new_token, parse_tokens

_LOOK_SECONDS: Final = 1.0


@click.command()
@FILE
@CLUSTERS
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Instead of rest.port; 0 is any free one."
)
@click.option("--listen", metavar="ADDRESS", help="Instead of rest.listen.")
@click.option(
    "--until-ended",
    "process",
    type=int,
    hidden=True,
    help="End with the process of this number, which has started it.",
)
@known_errors
def serve(
    file: str, clusters: str, port: int | None, listen: str | None, process: int | None
) -> None:
    """Show the flows on pages and by REST, until it is stopped.

    It reads what the flows' processes publish on the target clusters, wherever these run, and
    starts no Spark. Everybody on this machine may read; rest.tokens.file lets others in.
    """
    config = load_config(file, clusters, is_whole=True)
    address = config.serve.with_address(listen, port)
    if problems := [f"{key}: {problem}" for key, problem in serve_problems(address)]:
        raise ConfigError(file, problems)
    try:
        # Imported here because a machine without the extra has all other commands.
        from replication.serve.run import serve_mirror  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SetupError(
            f"serve needs the Python package {error.name}; run ./spark-submit.sh --setup serve, or "
            "install kafka-replication-on-spark[serve]"
        ) from error
    configure("json" if os.environ.get(SCRIPT_FORMAT) == "json" else "text")
    if process is not None:
        threading.Thread(target=_end_with, args=[process], daemon=True).start()
    serve_mirror(config, address, echo)


def _end_with(process: int) -> None:
    """Ends this process once *process*, which has started it, is gone."""
    while os.getppid() == process:
        time.sleep(_LOOK_SECONDS)
    os.kill(os.getpid(), 15)


# ``token``: makes a token for REST and pages.


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
    """Appends *line* to *file*, which stays whose it is; only its owner may read a new one."""
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
