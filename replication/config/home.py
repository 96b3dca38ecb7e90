"""Locates the folder in which set-up installs the local environment."""

import os
from pathlib import Path


def home() -> Path:
    """The folder of the Python environment, the jars and the default state directory."""
    configured = os.environ.get("REPLICATION_HOME")
    return Path(configured) if configured else Path(__file__).resolve().parents[2] / ".local"


def storage_class_path() -> str:
    """The jars of object storage for a class path; empty unless ``--setup s3`` has fetched them."""
    folder = home() / "jars" / "s3"
    return f"{folder}/*" if folder.is_dir() else ""
