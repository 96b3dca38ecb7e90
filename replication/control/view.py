"""What a command reads of one flow: its clusters, their groups, and its offset map."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from replication.config.tree import ClusterConfig, FlowConfig, MirrorConfig
from replication.control.written import open_written
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.state.cluster_ids import check_ids, check_topics, stored_ids, stored_topics
from replication.state.offset_rows import OffsetReader


@dataclass(frozen=True, slots=True)
class FlowView:
    """Read access to one flow.

    Args:
        config: The flow.
        source: The source cluster.
        target: The target cluster.
        offsets: The flow's offset maps.
        open_groups: Connects to the consumer groups of one of the two clusters.
        events: Returns the newest event for each value of some columns.
        doubts: Why the offset maps may be older than those of a running job; empty if they are not.
    """

    config: FlowConfig
    source: Cluster
    target: Cluster
    offsets: OffsetReader
    open_groups: Callable[[ClusterConfig], Groups]
    events: Callable[[Sequence[str]], list[dict[str, Any]]]
    doubts: tuple[str, ...] = ()


@contextmanager
def open_view(mirror: MirrorConfig, config: FlowConfig) -> Iterator[FlowView]:
    """Opens the clusters of *config*'s flow and the state directory of *mirror* for the block.

    A process that runs the flow is asked to write its offset map first.

    Raises:
        IdentityError: The state is of other clusters, as far as these answer.
        StateError: The tables cannot be read.
    """
    with (
        open_written(mirror, config) as (state, doubts),
        Cluster(config.source.alias, config.source.admin) as source,
        Cluster(config.target.alias, config.target.admin) as target,
    ):
        found = {}
        for cluster in (source, target):
            with suppress(ClusterError):  # a failover may have lost it
                found[cluster.alias] = cluster.cluster_id()
        stored = stored_ids(state, config)
        new = check_ids(config, mirror.state_dir, stored, found)
        if unnamed := {alias: new[alias] for alias in new if alias not in stored}:
            topics = stored_topics(state, config)
            with suppress(ClusterError):
                check_topics(config, mirror.state_dir, unnamed, topics, (source, target))
        yield FlowView(
            config,
            source,
            target,
            state.offsets(config.flow),
            lambda cluster: Groups(shared_jvm(), cluster.alias, cluster.admin),
            lambda keys: state.newest("events", config.flow, keys, ["at"]),
            doubts,
        )
