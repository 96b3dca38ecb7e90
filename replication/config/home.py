"""Where set-up has put this machine's environment."""

import os
from pathlib import Path


def home() -> Path:
    """Where set-up keeps the environment, the jars and the default state directory."""
    named = os.environ.get("REPLICATION_HOME")
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".local"
