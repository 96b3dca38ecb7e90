"""The channel of requests on this machine."""

from replication.state.files import LocalFiles, RequestFiles
from replication.state.requests import RequestChannel


def channel(state_dir: str, files: RequestFiles | None = None) -> RequestChannel:
    """The requests under *state_dir*, in *files* if they are given."""
    return RequestChannel(files or LocalFiles(), state_dir)
