"""``keys``: looks up configuration keys."""

import sys

import click

from replication.cli.options import echo
from replication.config.keys import KEYS
from replication.config.reference import reference, search
from replication.config.values import closest
from replication.errors import NoAnswerError

NO_KEY = NoAnswerError.exit_code


@click.command()
@click.argument("pattern", default="")
@click.option("--reference", "whole", is_flag=True, help="Print conf/reference.yaml.")
def keys(pattern: str, *, whole: bool) -> None:
    """Look up configuration keys by a part of their names.

    Shows default, limits and meaning of each key whose name contains PATTERN, MirrorMaker 2's keys
    without effect and client properties among them; without PATTERN, all keys of the mirror.
    """
    if whole:
        echo(reference(), nl=False)
        return
    found = list(search(pattern))
    if not found:
        other = closest(pattern, KEYS, 0.5)
        hint = f"; the most similar one is {other}" if other else ""
        echo(f"no key contains {pattern!r}{hint}", err=True)
        sys.exit(NO_KEY)
    echo("\n\n".join(found))
