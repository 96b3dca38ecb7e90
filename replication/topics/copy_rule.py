"""What the copies of a flow's records look like, by its configuration. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from replication.config.tree import FlowConfig
from replication.mm2.filters import NameFilter
from replication.model import Chain
from replication.offsets.copy_rule import CopyRule


def copy_rule(config: FlowConfig, topics: Iterable[str]) -> CopyRule:
    """Returns the rule of the flow *config* for *topics* of the source."""
    chains = {topic: chain for topic in set(topics) if (chain := chain_of(config, topic))}
    rule = CopyRule(config.record_timestamps, chains=chains, schemas=config.schema_ids)
    if not config.has_provenance:
        return rule
    return replace(rule, mark=config.source.alias, not_to=config.target.alias)


def chain_of(config: FlowConfig, topic: str) -> Chain:
    """Returns the transforms of *topic*: none of heartbeats, which the mirror itself reads.

    What an earlier process wrote is compared by what wrote it.
    """
    if topic in config.written_by:
        return config.written_by[topic]
    if not config.transforms or config.policy.is_heartbeats_topic(topic):
        return ()
    return tuple(one for one in config.transforms if NameFilter(one.topics).accepts(topic))
