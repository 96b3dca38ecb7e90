"""Does once what a job does in a state directory that is not on this machine."""

import uuid

from py4j.protocol import Py4JError

from replication.errors import StateError, first_line
from replication.state.engine_mark import refusal_of
from replication.state.open_files import open_files
from replication.state.storage import Storage


def try_remote(storage: Storage) -> None:
    """Writes, lists, reads and deletes a file in a state directory that is not on this machine.

    Raises:
        SetupError: Only Hadoop's client reaches it, and Java, which that needs, does not start.
        StateError: Something of it fails, or the tables are written by another engine.
    """
    state_dir = storage.access.state_dir.rstrip("/")
    path = f"{state_dir}/_control/doctor-{uuid.uuid4().hex}"
    try:
        with open_files(storage) as files:
            if text := refusal_of(files, storage):
                raise StateError(text)
            files.create(path, "x")
            found = files.find(path), files.read(path)
            files.delete(path)
    except (OSError, ValueError, Py4JError) as error:
        step = "check the address, the credentials and this machine's network"
        text = f"cannot write, list and read {path}: {first_line(error)}; {step}"
        raise StateError(text) from error
    if found != ([path], "x"):
        raise StateError(f"{path} was written, and is not listed and read as it was; look there")
