"""Whether two aliases are one cluster. Ids alone do not tell: quick starts share theirs.

``kafka-storage format`` takes any id, and compose files and tutorials carry one. Two addresses lead
to one cluster if the id is the same, and the brokers or the topics are.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections

PATIENCE_SECONDS: Final = 3.0
"""How long one address is asked for the id of its cluster."""


def foreign_addresses(cluster: Cluster, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the addresses that lead to other clusters than *cluster*, with the ids of these.

    A client may begin with any of its addresses, and one may be another cluster's by now. One that
    does not answer is not judged.

    Args:
        cluster: Which has all of the addresses.
        properties: Of its clients.

    Raises:
        ClusterError: The cluster does not answer.
    """
    servers = [one.strip() for one in properties.get("bootstrap.servers", "").split(",")]
    servers = [one for one in servers if one]
    if len(servers) < 2:  # noqa: PLR2004 - there is nothing to compare
        return {}
    own = cluster.cluster_id()

    def id_of(server: str) -> str:
        only = {**properties, "bootstrap.servers": server}
        with (
            suppress(ClusterError),
            Cluster(cluster.alias, only, patience_s=PATIENCE_SECONDS) as one,
        ):
            return one.cluster_id()
        return ""

    with ThreadPoolExecutor(len(servers), "addresses") as pool:
        ids = zip(servers, pool.map(id_of, servers), strict=True)
        return {server: its_id for server, its_id in ids if its_id not in {"", own}}


def have_one_id(source: Cluster, target: Cluster) -> bool:
    """Returns whether both clusters have the same id, which proves nothing on its own.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return source.cluster_id() == target.cluster_id()


def are_one(source: Cluster, target: Cluster) -> bool:
    """Returns whether both are the same cluster: with one id, and a broker or a topic in common.

    Brokers of one cluster have several addresses if it has several listeners; then a topic of
    both tells. Two clusters that show no common topic cannot be copied in a circle yet.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if not have_one_id(source, target):
        return False
    if source.brokers() & target.brokers():
        return True
    names = source.topic_names() & target.topic_names()
    ours = Rejections().call(source.describe, names)
    theirs = Rejections().call(target.describe, names)
    return any(ours[name].topic_id == theirs[name].topic_id for name in ours.keys() & theirs.keys())


def distinct_ids(clusters: Sequence[Cluster]) -> Mapping[str, str]:
    """Returns the ids of *clusters* by alias; an id that two share has the alias behind.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return {
        cluster.alias: f"{cluster.cluster_id()} of {cluster.alias}"
        if any(
            have_one_id(cluster, other) and not are_one(cluster, other)
            for other in clusters
            if other is not cluster
        )
        else cluster.cluster_id()
        for cluster in clusters
    }
