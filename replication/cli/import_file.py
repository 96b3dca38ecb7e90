"""``import``: converts a file of MirrorMaker 2, SRM or Strimzi."""

import os
from pathlib import Path

import click

from replication.cli.options import FILE, echo, known_errors
from replication.config.convert import converted
from replication.errors import ConfigError

OWNER_ONLY = 0o600


@click.command("import")
@FILE
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, which must not exist; default: stdout.",
)
@known_errors
def import_(file: str, output: Path | None) -> None:
    """Convert FILE to this mirror's YAML, with comments.

    FILE is an mm2.properties file, a configuration of Cloudera's SRM, Strimzi's KafkaMirrorMaker2
    or KafkaConnector resources, or connectors of Kafka Connect in JSON.
    """
    text = converted(file)
    if output is None:
        click.echo(text.encode(), nl=False)  # a file for the mirror is UTF-8, whatever the locale
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except OSError as error:
        raise ConfigError(str(output), [f"cannot be written: {error.strerror}"]) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    echo(f"{output}: check it with python -m replication validate", err=True)
