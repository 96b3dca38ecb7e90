"""``serve``: shows the flows on pages and by REST."""

import os
import threading
import time
from typing import Final

import click

from replication.cli.options import CLUSTERS, FILE, echo, known_errors
from replication.config.file import load_config
from replication.config.serve_settings import serve_problems
from replication.errors import ConfigError, SetupError
from replication.log import SCRIPT_FORMAT, configure

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
        from replication.serve.mirror import serve_mirror  # noqa: PLC0415
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
