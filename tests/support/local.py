"""What the tests take from this machine: the checkout, its local environment, and the JVM jars."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from replication.demo.brokers import Broker

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("REPLICATION_HOME", REPOSITORY / ".local"))
SCRIPT = REPOSITORY / "spark-submit.sh"
PYTHON = HOME / "venv" / "bin" / "python"
SPARK_SLOTS = 6


class Addressed(Protocol):
    """A cluster that clients reach, of one broker or several."""

    @property
    def bootstrap(self) -> str: ...


Clusters = tuple[Broker, Broker]
"""The fixture ``clusters``: the source and the target."""

Until = Callable[[Callable[[], object], float], None]
"""The fixture ``until``: waits for a condition, for so many seconds at most."""


def jars(name: str, *, override: str) -> Path:
    """The folder with the jars of one configuration of conf/jars.xml.

    Args:
        name: The configuration.
        override: An environment variable that may name another folder.
    """
    folder = Path(os.environ.get(override, HOME / "jars" / name))
    if not list(folder.glob("*.jar")):
        reason = f"no jars in {folder}: run ./spark-submit.sh once, or set {override}"
        # A run in CI must not be green because it skipped the tests.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return folder
