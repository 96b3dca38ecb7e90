"""Where files lie under a state directory."""

import re
import time
import uuid
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from replication.model import RECORDS, Flow, Job

ANYONE: Final = "anyone"
"""The addressee of a request to whichever process runs the job."""

_STOP_REQUEST: Final = re.compile(r"stop-.+@(?P<addressee>\w+)@\w+", re.ASCII | re.DOTALL)


def local_path(state_dir: str) -> Path | None:
    """The folder of a ``file:`` state directory, None for any other kind."""
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
    """The name of *job*'s files for *flow*. The jobs that carry records share one."""
    return flow.slug if job in RECORDS else f"{flow.slug}-{job}"


def all_requests_prefix(state_dir: str) -> str:
    """How the paths of all requests to stop anything begin."""
    return f"{state_dir.rstrip('/')}/_control/stop-"


def request_prefix(state_dir: str, flow: Flow, job: Job = "mirror") -> str:
    """How the paths of all requests to stop *job* of *flow* begin."""
    return f"{all_requests_prefix(state_dir)}{job_name(flow, job)}@"


def new_request(state_dir: str, flow: Flow, job: Job = "mirror", addressee: str = ANYONE) -> str:
    """The path of a new request to stop *job* of *flow*, unlike that of any other request.

    Args:
        state_dir: The state directory.
        flow: The flow.
        job: The job.
        addressee: The address of the process that is meant; by default the one that runs the job.
    """
    return f"{request_prefix(state_dir, flow, job)}{addressee}@{uuid.uuid4().hex}"


def answer_prefix(request: str) -> str:
    """How the path of the answer to *request* begins, if the job had failed."""
    folder, _, name = request.rpartition("/")
    return f"{folder}/ended-{name.removeprefix('stop-')}@"


def acceptance_prefix(state_dir: str, flow: Flow) -> str:
    """How the paths of all requests to accept a loss or a repetition in *flow* begin."""
    return f"{state_dir.rstrip('/')}/_control/accept-{flow.slug}@"


def new_acceptance(state_dir: str, flow: Flow) -> str:
    """The path of a new request to accept something in *flow*; paths sort by their times."""
    return f"{acceptance_prefix(state_dir, flow)}{time.time_ns():020d}-{uuid.uuid4().hex}"


def addressee_of(path: str) -> str | None:
    """The address in the path of a request to stop; None if a file of that name is none."""
    request = _STOP_REQUEST.fullmatch(path.rpartition("/")[2])
    return request["addressee"] if request else None
