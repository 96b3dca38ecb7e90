"""Whether state.dir can be used, and whether it is of the clusters that the file names."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.doctor.judgement import Judgement, failed, unknown
from replication.errors import ReplicationError, StateError
from replication.state.cluster_ids import check_ids, stored_ids
from replication.state.open_storage import storage_for
from replication.state.paths import local_path
from replication.state.table_reader import StateReader
from replication.state.trial import try_folder, try_remote

LITTLE_MB: Final = 1024
"""From so little free space on there is a warning: the tables need megabytes a day."""

NOTHING_MB: Final = 64
FOLDER_STEP: Final = "check that state.dir is writable by this user, and that its disk is well"


def look_at_state_dir(config: MirrorConfig) -> Iterator[Judgement]:
    """Yields whether state.dir can be written, renamed in and listed; locally also its space."""
    folder = local_path(config.state_dir)
    if folder is not None:
        yield from _look_at_folder(folder)
        return
    what = f"state.dir {config.state_dir}"
    try:
        storage = storage_for(config.access)
        try_remote(storage)
    except ReplicationError as error:
        yield failed(what, error)
    else:
        found = f"can be written and listed; tables by {storage.engine} ({storage.why})"
        yield Judgement(what=what, found=found)


def _look_at_folder(folder: Path) -> Iterator[Judgement]:
    above = next(path for path in (folder, *folder.parents) if path.exists())
    what = f"state.dir {folder}"
    try:
        try_folder(above)
        free_mb = shutil.disk_usage(above).free // 2**20
    except OSError as error:
        yield Judgement(
            what=what,
            found=f"cannot be used: {error.strerror or error}",
            verdict="problem",
            next_step=FOLDER_STEP,
            exit_code=StateError.exit_code,
        )
        return
    yield judge_space(what, free_mb, is_new=above != folder)


def judge_space(what: str, free_mb: int, *, is_new: bool) -> Judgement:
    """Returns what follows from *free_mb* MB of free space under a folder that can be written."""
    does = "will be made" if is_new else "can be written, locked and listed"
    found = f"{does}; {free_mb} MB are free"
    step = "free space on that disk, or name another folder in state.dir"
    if free_mb < NOTHING_MB:
        code = StateError.exit_code
        return Judgement(what=what, found=found, verdict="problem", next_step=step, exit_code=code)
    if free_mb < LITTLE_MB:
        return Judgement(what=what, found=found, verdict="warning", next_step=step)
    return Judgement(what=what, found=found)


def look_at_identity(
    config: MirrorConfig, flow: FlowConfig, state: StateReader, ids: Mapping[str, str]
) -> Judgement:
    """Returns whether the tables are of the clusters with these *ids*, by alias."""
    what = f"state of {flow.flow}"
    try:
        stored = stored_ids(state, flow)
        check_ids(flow, config.state_dir, stored, ids)
    except ReplicationError as error:
        return failed(what, error)
    if missing := [side.alias for side in (flow.source, flow.target) if side.alias not in ids]:
        return unknown(what, f"the cluster id of {', '.join(missing)} is unknown")
    is_known = "is of these clusters" if stored else "is new"
    return Judgement(what=what, found=is_known)
