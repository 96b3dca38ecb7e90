"""The newest runs of a flow, which its checkpoints need before they are in the offset table."""

from collections.abc import Callable, Mapping

from replication.model import TopicPartition
from replication.offsets.pending import PendingRuns
from replication.state.offset_rows import TopicMap

MapsOf = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, TopicMap]]
"""The offset maps of these partitions, as far as they concern these offsets and later ones."""


class RecentRuns:
    """Adds what the running generation has not written yet to the maps that the table holds."""

    def __init__(self) -> None:
        self._followed: tuple[PendingRuns, Mapping[str, str]] | None = None

    def follow(self, pending: PendingRuns, topic_ids: Mapping[str, str]) -> None:
        """Adds the runs of *pending* from now on; *topic_ids* are those of the source topics."""
        self._followed = pending, topic_ids

    def forget(self) -> None:
        """Adds nothing from now on: the generation has ended and its runs are written."""
        self._followed = None

    def maps(
        self, least: Mapping[TopicPartition, int], read: MapsOf
    ) -> Mapping[TopicPartition, TopicMap]:
        """What *read* answers for *least*, with the newest runs."""
        if self._followed is None:
            return read(least)
        pending, topic_ids = self._followed
        recent = pending.recent()  # before the table: a run that is written between is in both
        maps = dict(read(least))
        for tp in maps.keys() & recent.keys():
            if maps[tp].topic_id == topic_ids[tp.topic]:
                offsets = maps[tp].offsets.extended(recent[tp])
                maps[tp] = TopicMap(maps[tp].topic_id, offsets)
        return maps
