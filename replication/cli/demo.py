"""``demo``: shows the mirror at work on this machine."""

import sys

import click

from replication.cli.options import MODES, known_errors
from replication.demo.play import run
from replication.model import Mode


@click.command()
@click.option("--keep", is_flag=True, help="Keep clusters and mirror running until Ctrl-C.")
@click.option("--seconds", default=20, show_default=True, help="How long to produce records.")
@click.option(
    "--mode", type=MODES, default="auto", show_default=True, help="The mirror's replication.mode."
)
@known_errors
def demo(*, keep: bool, seconds: int, mode: Mode) -> None:
    """Replicate between two local clusters and compare them."""
    sys.exit(run(keep=keep, seconds=seconds, mode=mode))
