"""Whether state.dir can be used, and whether it is of the clusters that the file names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.doctor.judgement import Judgement, failed, unknown
from replication.errors import ReplicationError, StateError
from replication.state.cluster_ids import check_ids, stored_ids
from replication.state.folder_trial import SPACE_STEP, existing, folder_obstacle, free_mb
from replication.state.open_storage import storage_for
from replication.state.paths import local_path
from replication.state.table_reader import StateReader
from replication.state.trial import try_remote

LITTLE_MB: Final = 1024
"""From so little free space on there is a warning: the tables need megabytes a day."""


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
    what, (obstacle, step) = f"state.dir {folder}", folder_obstacle(folder)
    if obstacle:
        code = StateError.exit_code
        yield Judgement(
            what=what, found=obstacle, verdict="problem", next_step=step, exit_code=code
        )
    else:
        yield judge_space(what, free_mb(existing(folder)), is_new=not folder.exists())


def judge_space(what: str, left: int, *, is_new: bool) -> Judgement:
    """Returns what follows from *left* MB of free space under a folder that can be written."""
    does = "will be made" if is_new else "can be written, locked and listed"
    found = f"{does}; {left} MB are free"
    if left < LITTLE_MB:
        return Judgement(what=what, found=found, verdict="warning", next_step=SPACE_STEP)
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
