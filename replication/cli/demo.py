"""``demo``: shows the mirror at work on this machine."""

import sys
from typing import get_args

import click

from replication.cli.options import known_errors
from replication.demo.play import run
from replication.model import Mode


@click.command()
@click.option("--keep", is_flag=True, help="Keep clusters and mirror running until Ctrl-C.")
@click.option("--seconds", default=20, show_default=True, help="How long to produce records.")
@click.option(
    "--mode",
    type=click.Choice([mode for mode in get_args(Mode) if mode != "drain"]),
    default="auto",
    show_default=True,
    help="The mirror's replication.mode. It is measured while it runs, which a drain does not.",
)
@known_errors
def demo(*, keep: bool, seconds: int, mode: Mode) -> None:
    """Replicate between two local clusters and compare them."""
    sys.exit(run(keep=keep, seconds=seconds, mode=mode))
