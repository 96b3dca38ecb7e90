"""Keeps a flow from the state and from the topics of other clusters than its own."""

from replication.errors import ClusterError, IdentityError
from replication.flows.context import FlowContext
from replication.kafka.same_cluster import foreign_addresses
from replication.state.cluster_ids import (
    CLUSTERS,
    check_ids,
    check_topics,
    rows_of,
    stored_ids,
    stored_topics,
)
from replication.state.spark_reader import reader_of


class Identity:
    """The ids of one flow's clusters.

    Args:
        context: The flow.

    Raises:
        StateError: The table cannot be read.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._stored = stored_ids(reader_of(context.tables), context.config)

    def check(self) -> dict[str, str]:
        """Checks the clusters' ids; returns those that are not recorded yet, by alias.

        Raises:
            IdentityError: The state is of other clusters.
            ClusterError: A cluster does not answer.
        """
        clusters = self._context.source, self._context.target
        found = {cluster.alias: cluster.cluster_id() for cluster in clusters}
        config, tables = self._context.config, self._context.tables
        new = check_ids(config, tables.root, self._stored, found)
        if unnamed := {alias: new[alias] for alias in new if alias not in self._stored}:
            topics = stored_topics(reader_of(tables), config)
            check_topics(config, tables.root, unnamed, topics, clusters)
        return new

    def check_addresses(self) -> None:
        """Makes sure that no client can begin at another cluster than its own.

        Raises:
            IdentityError: An address of a cluster leads to another one.
            ClusterError: A cluster does not answer.
        """
        config = self._context.config
        for cluster, side in (
            (self._context.source, config.source),
            (self._context.target, config.target),
        ):
            if others := foreign_addresses(cluster, side.admin):
                listed = ", ".join(f"{one} to the id {uid}" for one, uid in sorted(others.items()))
                raise IdentityError(
                    f"flow {config.flow}: the addresses {side.alias}.bootstrap.servers="
                    f"{cluster.servers} lead to several Kafka clusters: {listed}, and the rest to "
                    f"the id {cluster.cluster_id()}; a client may begin with any of them, so "
                    "nothing is read or written. Take those of other clusters out of the file"
                )

    def record(self) -> None:
        """Checks the ids, and records those that are new.

        Only the process that holds the lease of the flow's records may do so.

        Raises:
            IdentityError: The state is of other clusters.
            ClusterError: A cluster does not answer.
            StateError: The table cannot be written.
        """
        new = self.check()
        if new:
            self._context.tables.append(CLUSTERS, rows_of(self._context.config, new))
            self._stored |= new


def check_identity(context: FlowContext) -> None:
    """Checks the clusters of a flow before anything is changed for it.

    Without an answer of a cluster nothing is known; nothing can be changed there either, and the
    flow checks again. So a silent cluster is not waited for: the other flows are to start.

    Raises:
        IdentityError: The state is of other clusters.
        StateError: The table cannot be read.
    """
    for cluster in (context.source, context.target):
        if cluster.is_silent:
            text = f"cluster {cluster.alias} does not answer"
            context.log.info("clusters_not_checked", text=text)
            return
    try:
        identity = Identity(context)
        identity.check_addresses()
        identity.check()
    except ClusterError as error:
        context.log.info("clusters_not_checked", text=error)
