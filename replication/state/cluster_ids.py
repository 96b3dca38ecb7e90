"""The table ``clusters``: the Kafka clusters that a flow's state belongs to.

An alias is a name in a file. Two files may use the same ones for other clusters, with the same
state directory: each would take the other's offset map for its own.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from replication.config.tree import ClusterConfig, FlowConfig
from replication.errors import IdentityError
from replication.model import Location
from replication.state.table_reader import StateReader

CLUSTERS: Final = "clusters"
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
