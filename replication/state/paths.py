"""Where files lie under a state directory."""

from pathlib import Path
from urllib.parse import unquote, urlparse

from replication.model import RECORDS, Flow, Job


def local_path(state_dir: str) -> Path | None:
    """Returns the folder of a ``file:`` state directory, None for any other kind."""
    parts = urlparse(state_dir)
    return Path(unquote(parts.path)) if parts.scheme in {"", "file"} else None


def make_private(folder: Path) -> None:
    """Creates *folder* and those above it that are missing, for this user only.

    The tables hold names of topics, offsets and, after an incident, texts of clusters.
    """
    missing = [folder, *folder.parents]
    for path in reversed([path for path in missing if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)


def job_name(flow: Flow, job: Job) -> str:
    """Returns the name of *job*'s files for *flow*. The jobs that carry records share one."""
    return flow.slug if job in RECORDS else f"{flow.slug}-{job}"
