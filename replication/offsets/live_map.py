"""The offset map of a running flow, held in memory. Pure.

The thread that records progress adds runs while the thread that translates groups reads them,
hence the lock. Runs that were stored before this process started are loaded for those partitions
that somebody asks about, from the lowest offset in question on: most partitions of a large flow
have no group, and most groups are near the end of theirs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from replication.model import TopicPartition
from replication.offsets.map import OffsetMap
from replication.offsets.runs import Border, OffsetRun, join_runs
from replication.offsets.thinning import thin_runs

FEW_RUNS = 1_024
"""Runs that a partition collects before they are thinned; then twice as many as were left."""


@dataclass(frozen=True, slots=True)
class TopicMap:
    """A partition's offset map and the id of the topic its source offsets belong to."""

    topic_id: str
    offsets: OffsetMap


@dataclass(slots=True)
class _Partition:
    """The runs of one partition; ``map`` is None while it has to be indexed again."""

    topic_id: str
    stored: Sequence[OffsetRun] = ()
    added: list[OffsetRun] = field(default_factory=list)
    mirror_syncs: Sequence[int] = ()
    thin_at: int = FEW_RUNS
    map: TopicMap | None = None

    def add(self, run: OffsetRun) -> None:
        joined = join_runs(self.added[-1], run) if self.added else None
        if joined is None:
            self.added.append(run)
        else:
            self.added[-1] = joined
        if len(self.added) >= self.thin_at:
            self.added = thin_runs(self.added, self.mirror_syncs)
            self.thin_at = max(FEW_RUNS, 2 * len(self.added))
        self.map = None

    def indexed(self) -> TopicMap:
        if self.map is None:
            self.map = TopicMap(self.topic_id, OffsetMap([*self._stored_before(), *self.added]))
        return self.map

    def _stored_before(self) -> Sequence[OffsetRun]:
        """Returns the stored runs that no added run repeats: those added have more borders.

        What earlier processes stored ends where the target's log ended when the first run was
        added. A position right there stays, wherever it is on the source: this process may have
        rewound, and the older position still says that records before it may be on the target.
        """
        if not self.added:
            return self.stored
        first = self.added[0]
        return [
            run
            for run in self.stored
            if run.tgt_from < first.tgt_from or run.tgt_until == first.tgt_from
        ]


class Asked(dict[TopicPartition, int]):
    """The offsets from which on stored runs have to be read, and since when that is so.

    Args:
        least: The lowest offset by partition.
        era: The map is another one from the moment at which a writer comes or goes.
    """

    def __init__(self, least: Mapping[TopicPartition, int], era: int) -> None:
        super().__init__(least)
        self.era = era


class LiveMap:
    """The offset map of one flow while its process runs. Threads may share it."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._loaded: dict[TopicPartition, int] = {}  # the lowest offset that was asked about
        self._committed: dict[TopicPartition, frozenset[int]] = {}  # by groups, as of now
        self._taken: dict[TopicPartition, frozenset[int]] = {}  # those with borders in the table
        self._is_attached = False
        self._era = 0
        self._lock = Lock()

    def attach(self) -> None:
        """Records that the flow's only writer adds its runs here from now on.

        What was loaded before is forgotten: another process may have written since.
        """
        with self._lock:
            self._is_attached = True
            self._era += 1
            self._forget()

    def detach(self) -> None:
        """Records that this process no longer writes the flow's map; another one may."""
        with self._lock:
            self._is_attached = False
            self._era += 1
            self._forget()

    def add(
        self,
        runs: Mapping[TopicPartition, Iterable[OffsetRun]],
        topic_ids: Mapping[str, str],
        mirror_syncs: Mapping[TopicPartition, Sequence[int]] | None = None,
    ) -> None:
        """Adds runs that the flow has just finished, oldest first.

        A partition whose topic id changed starts over: its offsets mean other records now.
        *mirror_syncs* are the source offsets at which no border is given up with age.
        """
        with self._lock:
            for tp, finished in runs.items():
                partition = self._of(tp, topic_ids[tp.topic])
                partition.mirror_syncs = (mirror_syncs or {}).get(tp, ())
                for run in finished:
                    partition.add(run)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets all runs of *partitions*, stored ones included: they are void."""
        with self._lock:
            for tp in partitions:
                self._partitions.pop(tp, None)
                self._taken.pop(tp, None)
                self._loaded[tp] = 0

    def not_loaded(self, least: Mapping[TopicPartition, int]) -> Asked:
        """Returns those of *least* from which on stored runs have to be read for `load`.

        All of them while no writer is attached: another process writes the table then.
        """
        with self._lock:
            if not self._is_attached:
                self._forget()
            missing = {
                tp: offset
                for tp, offset in least.items()
                if tp not in self._loaded or offset < self._loaded[tp]
            }
            return Asked(missing, self._era)

    def load(
        self, least: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, TopicMap]
    ) -> None:
        """Takes the *stored* maps, as far as they concern the offsets *least* and later ones.

        A partition of *least* without a map has none in the table. Rows that were asked for before
        a writer came or went are not taken: what was written since is not among them.
        """
        with self._lock:
            if self._is_of_earlier_era(least):
                return
            for tp, offset in least.items():
                if self._loaded.get(tp, offset + 1) <= offset:
                    continue  # while the table was read, its rows became void or were loaded
                self._loaded[tp] = offset
                if tp in stored:
                    known = self._partitions.get(tp)
                    if known is None or known.topic_id == stored[tp].topic_id:
                        partition = self._of(tp, stored[tp].topic_id)
                        partition.stored = stored[tp].offsets.runs
                        partition.map = None

    def maps(
        self, partitions: Iterable[TopicPartition], asked: Asked | None = None
    ) -> dict[TopicPartition, TopicMap]:
        """Returns the maps of *partitions*; one that was never replicated is absent.

        None at all if a writer has come or gone since *asked*: the stored runs may be missing.
        """
        with self._lock:
            if self._is_of_earlier_era(asked):
                return {}
            known = ((tp, self._partitions.get(tp)) for tp in partitions)
            return {tp: partition.indexed() for tp, partition in known if partition is not None}

    def want_borders(self, committed: Mapping[TopicPartition, Iterable[int]]) -> None:
        """Notes what groups have *committed* now: where that is is for the table as well."""
        with self._lock:
            if self._is_attached:
                self._committed |= {tp: frozenset(offsets) for tp, offsets in committed.items()}

    def take_borders(self) -> dict[TopicPartition, tuple[str, list[Border]]]:
        """Takes the borders there that were not taken before, with the topic ids.

        The table has fewer borders than the map in memory. What is translated exactly here is to
        be so for a command, and for the next process.
        """
        found: dict[TopicPartition, tuple[str, list[Border]]] = {}
        with self._lock:
            for tp, offsets in self._committed.items():
                new = offsets - self._taken.get(tp, frozenset())
                if not new or (partition := self._partitions.get(tp)) is None:
                    continue
                known = partition.indexed().offsets
                ahead = {offset for offset in new if offset > known.replicated_until}
                self._taken[tp] = offsets - ahead
                at = map(known.border_at, sorted(new - ahead))
                if borders := [border for border in at if border is not None]:
                    found[tp] = partition.topic_id, borders
        return found

    def _is_of_earlier_era(self, asked: Mapping[TopicPartition, int] | None) -> bool:
        return isinstance(asked, Asked) and asked.era != self._era

    def _forget(self) -> None:
        self._partitions.clear()
        self._loaded.clear()
        self._committed.clear()
        self._taken.clear()

    def _of(self, tp: TopicPartition, topic_id: str) -> _Partition:
        partition = self._partitions.get(tp)
        if partition is None or partition.topic_id != topic_id:
            partition = self._partitions[tp] = _Partition(topic_id)
        return partition
