"""What the copies of a flow's records look like, by its configuration. Pure."""

from replication.config.tree import FlowConfig
from replication.offsets.copy_rule import CopyRule


def copy_rule(config: FlowConfig) -> CopyRule:
    """Returns the rule of the flow *config*."""
    if not config.has_provenance:
        return CopyRule(config.record_timestamps)
    return CopyRule(config.record_timestamps, config.source.alias, config.target.alias)
