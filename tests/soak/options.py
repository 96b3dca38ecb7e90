"""The command line of the soak."""

import argparse
import secrets
from collections.abc import Sequence
from typing import get_args

from replication.model import Mode

MODES = tuple(mode for mode in get_args(Mode) if mode != "auto")


def parsed(arguments: Sequence[str], description: str) -> argparse.Namespace:
    """The parsed options: mode, seconds, seed. Invalid ones end the program with a message."""
    parser = argparse.ArgumentParser(
        prog="tests/run.sh --soak", description=description, allow_abbrev=False
    )
    parser.add_argument("mode", choices=MODES, help="the mode of the mirror")
    parser.add_argument("seconds", type=_seconds, help="how long to look for faults")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(1_000_000),
        help="chooses the faults; the same seed chooses the same ones. Default: a random one",
    )  # fmt: skip
    parser.add_argument(
        "--spare-driver", action="store_true",
        help="no fault ends or pauses the driver, so that what grows in it within the hour is seen",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.spare_driver and options.mode == "drain":
        parser.error("--spare-driver: a drain ends by itself")
    return options


def _seconds(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return number
