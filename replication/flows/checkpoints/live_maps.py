"""The offset maps by which a running flow's groups are translated."""

from collections.abc import Mapping

from replication.flows.context import FlowContext
from replication.model import TopicPartition
from replication.offsets.live_map import TopicMap
from replication.state.spark_reader import reader_of
from replication.upkeep.groups import MapsOf


def live_maps(context: FlowContext) -> MapsOf:
    """Returns the flow's maps in memory; stored runs are read when an offset is first asked about.

    While no flow of this process writes the map, as in a job that runs checkpoints only, every
    question reads the table.
    """
    stored = reader_of(context.tables).offsets(context.config.flow)

    def maps_of(least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        not_loaded = context.live_map.not_loaded(least)
        if not_loaded:
            context.live_map.load(not_loaded, stored.maps(not_loaded))
        return context.live_map.maps(least, not_loaded)

    return maps_of
