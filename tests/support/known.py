"""What a running flow's groups are translated by: its map in memory, and what is stored before."""

from replication.flows.checkpoints import live_maps
from replication.model import TopicPartition
from replication.offsets.map import OffsetMap
from tests.support.flows import RunningFlow


def known_map(flow: RunningFlow, tp: TopicPartition) -> OffsetMap:
    """The map of one partition from its first offset on; an empty one if there is none."""
    maps = live_maps(flow.context)({tp: 0})
    return maps[tp].offsets if tp in maps else OffsetMap(())


def known_until(flow: RunningFlow, tp: TopicPartition) -> int:
    """The source offset up to which that map reaches; -1 if it is empty."""
    return known_map(flow, tp).replicated_until
