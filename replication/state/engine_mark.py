"""Who writes the tables of a remote state directory: a mark that all processes look at.

Two engines that commit to one table at the same time may each believe that they have won. The rule
of `replication.state.storage` gives all processes of a mirror the same engine; the mark is there
for the ones that see other files of Hadoop's, or another configuration.
"""

import uuid
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import SetupError, StateError, first_line
from replication.state.files import ObjectFiles, RequestFiles, open_files
from replication.state.storage import Storage
from replication.state.stored_table import Engine

_OTHER: Final[dict[Engine, Engine]] = {"delta-rs": "spark", "spark": "delta-rs"}
_NO_CONDITION: Final = (
    "the server of {} does not know conditional puts (If-None-Match), so of two commits to a table "
    "one would be lost: update the server, or write state.engine: spark and let one process at a "
    "time write"
)


def claim_engine(files: RequestFiles, storage: Storage) -> None:
    """Makes sure that no other engine than *storage*'s writes the tables, from now on.

    Of two processes that begin at the same moment with different engines none may go on: each
    writes a mark of its own first, and then looks for those of the other engine. The mark that
    stays is written after that look and never taken back, because others may have seen it.

    Raises:
        SetupError: The other engine writes them, or the storage cannot refuse a second commit.
        StateError: The mark cannot be read or written.
    """
    if storage.is_local:  # there a kernel lock lets one commit at a time
        return
    mine, other = _mark(storage, storage.engine), _mark(storage, _OTHER[storage.engine])
    own = f"{mine}@{uuid.uuid4().hex}"
    try:
        if files.exists(mine):
            _check(storage, mine, [other] if files.exists(other) else [])
            return
        files.create(own)
        try:
            _check(storage, own, files.find(other))
            files.create(mine)
        finally:
            files.delete(own)
    except (OSError, Py4JError) as error:
        raise StateError(f"cannot tell who writes the tables by {mine}: {first_line(error)}") from (
            error
        )


def _check(storage: Storage, mark: str, others: list[str]) -> None:
    """Raises SetupError if the other engine has marks, or the storage takes any commit."""
    if others:
        raise SetupError(_refusal(storage, others[0]))
    if storage.has_objects and not ObjectFiles(storage).keeps(mark):
        raise SetupError(_NO_CONDITION.format(storage.access.state_dir))


def refusal_of(files: RequestFiles, storage: Storage) -> str:
    """Returns why `claim_engine` would refuse, as far as marks tell; "" if it would not."""
    if storage.is_local:
        return ""
    other = _mark(storage, _OTHER[storage.engine])
    others = files.find(other)
    return _refusal(storage, others[0]) if others else ""


def _mark(storage: Storage, engine: Engine) -> str:
    return f"{storage.access.state_dir.rstrip('/')}/_control/engine-{engine}"


def _refusal(storage: Storage, mark: str) -> str:
    other = _OTHER[storage.engine]
    return (
        f"the tables in {storage.access.state_dir} are written by {other}, as {mark} says, and "
        f"this process would write them by {storage.engine} ({storage.why}). Write state.engine: "
        f"{other}, or give it the same HADOOP_CONF_DIR; to change over, stop all processes of this "
        "state.dir and delete that file"
    )


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
