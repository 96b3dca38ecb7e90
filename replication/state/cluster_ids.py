"""The table ``clusters``: the Kafka clusters that a flow's state belongs to.

An alias is a name in a file. Two files may use the same ones for other clusters, with the same
state directory: each would take the other's offset map for its own.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from replication.config.tree import ClusterConfig, FlowConfig
from replication.errors import IdentityError
from replication.kafka.cluster import Cluster, Rejections
from replication.model import Location
from replication.state.table_reader import StateReader

CLUSTERS: Final = "clusters"
StoredTopics = Mapping[Location, Mapping[str, str]]
"""The id of each topic that a state is of, by side and name; empty if it is not known."""

SIDES: Final[tuple[Location, Location]] = ("source", "target")


def stored_ids(state: StateReader, config: FlowConfig) -> dict[str, str]:
    """Returns the id of each cluster of the flow that *state* knows, by alias.

    Raises:
        StateError: The table cannot be read.
    """
    rows = state.newest(CLUSTERS, config.flow, ["alias"], ["at"])
    return {row["alias"]: row["cluster_id"] for row in rows}


def check_ids(
    config: FlowConfig, state_dir: str, stored: Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """Compares the ids of the flow's clusters, by alias, with those that its state is of.

    A cluster that is not among the *found* ones is not judged.

    Returns:
        The ids that are to be recorded: of clusters that the state does not know, or that the file
        names as the flow's clusters from now on.

    Raises:
        IdentityError: The clusters are not those of the state, or of the file.
    """
    new: dict[str, str] = {}
    for side in SIDES:
        cluster = config.source if side == "source" else config.target
        known, now_found = stored.get(cluster.alias), found.get(cluster.alias)
        if now_found is None:
            continue
        key = f"{config.flow}.replication.{side}.cluster.id"
        if cluster.expected_id not in {"", now_found}:
            raise IdentityError(
                f"flow {config.flow}: {_address(cluster)} leads to the Kafka cluster with the id "
                f"{now_found}, but {key} is {cluster.expected_id}; nothing was changed. Correct "
                "one of both"
            )
        if known == now_found:
            continue
        if known is not None and not cluster.expected_id:
            raise IdentityError(
                f"flow {config.flow}: the state in {state_dir} is of another cluster "
                f"{cluster.alias}, with the id {known}, but {_address(cluster)} leads to the one "
                f"with the id {now_found}; nothing was changed. If this file is of other clusters, "
                "give it a state.dir of its own. If the cluster was rebuilt or replaced on "
                f"purpose, write {key} = {now_found}: the flow goes on with the new cluster, and "
                "takes its topics for new ones"
            )
        new[cluster.alias] = now_found
    return new


def stored_topics(state: StateReader, config: FlowConfig) -> StoredTopics:
    """Returns the ids of the topics that *state* is of.

    Raises:
        StateError: The tables cannot be read.
    """
    anchors = state.offsets(config.flow).progress().anchors
    rows = state.newest("topics", config.flow, ["remote_topic"], ["at"])
    return {
        "source": {tp.topic: anchor.topic_id for tp, anchor in anchors.items()},
        "target": {row["remote_topic"]: row.get("remote_id") or "" for row in rows},
    }


def check_topics(
    config: FlowConfig,
    state_dir: str,
    found: Mapping[str, str],
    stored: StoredTopics,
    clusters: tuple[Cluster, Cluster],
) -> None:
    """Makes sure that a state which does not name its clusters may be of these.

    An earlier version wrote it, or its table ``clusters`` was moved away. With none of its topics
    it is of other clusters, and would belong to them once their ids were noted.

    Args:
        config: The flow.
        state_dir: The state directory.
        found: The ids of clusters that the state does not name, by alias.
        stored: The topics that it is of.
        clusters: Source and target.

    Raises:
        IdentityError: None of the topics is on a cluster.
        ClusterError: A cluster does not answer.
    """
    for side, cluster in zip(SIDES, clusters, strict=True):
        of_file = config.source if side == "source" else config.target
        known = {topic: its_id for topic, its_id in stored[side].items() if its_id}
        if of_file.alias not in found or of_file.expected_id or not known:
            continue
        rejections = Rejections()
        there = rejections.call(cluster.describe, known)
        ids = {topic: described.topic_id for topic, described in there.items()}
        if rejections.texts or not all(ids.values()) or ids.items() & known.items():
            continue  # of some nobody knows, or one is the same
        topic, its_id = min(known.items())
        now = f"has the id {ids[topic]}" if topic in ids else "does not exist"
        key = f"{config.flow}.replication.{side}.cluster.id"
        raise IdentityError(
            f"flow {config.flow}: the state in {state_dir} does not name its cluster "
            f"{of_file.alias}, and none of its {len(known)} topics is on the one to which "
            f"{_address(of_file)} leads, with the id {found[of_file.alias]}: {topic}, of the id "
            f"{its_id}, {now} there; nothing was changed. Either this file is of another cluster "
            "than the state: then give it a state.dir of its own. Or the cluster is the right one, "
            "and all of these topics were deleted or created again: then write "
            f"{key} = {found[of_file.alias]}, and the flow takes them for new ones"
        )


def rows_of(config: FlowConfig, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the rows that record *ids*, by alias."""
    return [
        {
            "flow": str(config.flow),
            "alias": alias,
            "cluster_id": cluster_id,
            "at": datetime.now(timezone.utc),
        }
        for alias, cluster_id in ids.items()
    ]


def _address(cluster: ClusterConfig) -> str:
    servers = cluster.admin.get("bootstrap.servers", "")
    return f"{cluster.alias}.bootstrap.servers={servers}"
