"""Where files lie under a state directory. Pure."""

from pathlib import Path
from urllib.parse import unquote, urlparse

from replication.model import RECORDS, Flow, Job


def local_path(state_dir: str) -> Path | None:
    """The folder of a ``file:`` state directory, None for any other kind."""
    parts = urlparse(state_dir)
    return Path(unquote(parts.path)) if parts.scheme in {"", "file"} else None


def job_name(flow: Flow, job: Job) -> str:
    """The name of *job*'s files for *flow*. The jobs that carry records share one."""
    return flow.slug if job in RECORDS else f"{flow.slug}-{job}"


def request_path(state_dir: str, flow: Flow, job: Job = "mirror") -> str:
    """The file that asks *job* of *flow* to stop. Its content does not matter."""
    return f"{state_dir.rstrip('/')}/_control/stop-{job_name(flow, job)}"
