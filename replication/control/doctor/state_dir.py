"""Whether state.dir can be used, and whether it is of the clusters that the file names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.doctor.judgement import Judgement, failed, unknown
from replication.control.partitions import PATIENCE_SECONDS
from replication.errors import ClusterError, ReplicationError, StateError
from replication.kafka.cluster import Cluster
from replication.state.cluster_ids import (
    StoredTopics,
    check_ids,
    check_topics,
    stored_ids,
    stored_topics,
)
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
    """Returns what a start would say of the tables: whether they are of the clusters of *ids*.

    Args:
        config: The file.
        flow: One of its flows.
        state: Its tables.
        ids: Of the clusters, by alias, as far as they answer.
    """
    what = f"state of {flow.flow}"
    try:
        stored = stored_ids(state, flow)
        new = check_ids(flow, config.state_dir, stored, ids)
        unnamed = {alias: new[alias] for alias in new if alias not in stored}
        topics: StoredTopics = stored_topics(state, flow) if unnamed else {}
        if any(topics.values()):
            with (
                Cluster(
                    flow.source.alias, flow.source.admin, patience_s=PATIENCE_SECONDS
                ) as source,
                Cluster(
                    flow.target.alias, flow.target.admin, patience_s=PATIENCE_SECONDS
                ) as target,
            ):
                check_topics(flow, config.state_dir, unnamed, topics, (source, target))
    except ClusterError as error:
        return unknown(what, str(error))
    except ReplicationError as error:
        return failed(what, error)
    if missing := [side.alias for side in (flow.source, flow.target) if side.alias not in ids]:
        return unknown(what, f"the cluster id of {', '.join(missing)} is unknown")
    if any(topics.values()):
        names = " and ".join(sorted(unnamed))
        found = f"does not name its clusters; topics of it are on {names}, and a start notes the id"
    else:
        found = "is of these clusters" if stored else "is new"
    return Judgement(what=what, found=found)
