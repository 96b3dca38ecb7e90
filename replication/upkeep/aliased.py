"""Finds topics of the source that are left out because their names begin with an alias.

Such a name reads as a copy's. If it is one, nobody misses it; if not, its records are not copied,
and an operator must know. MirrorMaker 2 copies topics that begin with the source's own alias up to
4.3, so what it has copied must not end without a decision.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.topics.selection import aliased_topics


@dataclass(frozen=True, slots=True)
class Aliased:
    """Why topics are left out, by name.

    Args:
        left_out: Those without a copy on the target.
        copied: Those that another replicator has copied.
    """

    left_out: Mapping[str, str] = field(default_factory=dict)
    copied: Mapping[str, str] = field(default_factory=dict)


def find_aliased(config: FlowConfig, target: Cluster, names: Collection[str]) -> Aliased:
    """Returns the topics among the source's *names* that are left out, and may be no copies.

    Raises:
        ClusterError: The target does not answer.
    """
    found = aliased_topics(config, names)
    if not found:
        return Aliased()
    flow, policy = config.flow, config.policy
    remote = {name: policy.remote_topic(flow.source, name) for name in found}
    origin = {name: policy.upstream_topic(name) or "" for name in found}
    wanted = {*remote.values(), *origin.values()} - {""}
    existing = Rejections().call(target.describe, wanted)
    left_out, copied = {}, {}
    for name, alias in found.items():
        if alias == flow.source and remote[name] in existing:
            copied[name] = _reason(alias) + (
                f"; but {remote[name]} exists on {flow.target}, so another replicator has copied "
                "it, such as MirrorMaker 2 before 4.4, and its copy would end here"
            )
        elif alias == flow.source or origin[name] not in existing:
            left_out[name] = _reason(alias)
    return Aliased(left_out, copied)


def _reason(alias: str) -> str:
    return (
        f"the name begins with the alias {alias}, so the topic is taken for a copy and not copied "
        "again, as in MirrorMaker 2 since 4.4. To copy it, choose another alias, another "
        "replication.policy.separator or IdentityReplicationPolicy; else add it to topics.exclude"
    )
