"""The values that the rows of ``offset_runs`` record. Pure, whichever library read the rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Protocol

from replication.model import Position, TopicPartition
from replication.offsets.epochs import UNKNOWN, UNSTAMPED, Epochs, Stamps
from replication.offsets.live_map import TopicMap
from replication.offsets.map import OffsetMap
from replication.offsets.runs import OffsetRun, is_placed, merge_runs

OFFSET_RUNS = "offset_runs"
COMPACTED: Final = -2
"""``first_batch`` of the rows that a compaction has written."""

OLDEST_FIRST = ("generation", "tgt_from", "written_at")
"""The order of a flow's rows in which the newest is the last."""

TableRow = Mapping[str, Any]
"""A row of a table: values by column name, times as aware datetimes."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last known pair of equal positions of a source partition, and the topic's id."""

    position: Position
    topic_id: str


@dataclass(frozen=True, slots=True)
class StoredProgress:
    """What the next start of a flow must know of all earlier ones.

    ``replicated_until`` is the greatest source offset ever replicated, for the newest topic id.
    The flow has ``rows`` rows; the last compaction left ``compacted_rows`` of them. ``placed`` are
    the partitions whose last row is as `is_placed` says. ``stamps`` are the leaders' epochs of the
    anchors, unknown where an earlier version has written the row.
    """

    last_generation: int
    anchors: dict[TopicPartition, Anchor]
    replicated_until: dict[TopicPartition, int]
    rows: int = field(default=0, compare=False)
    compacted_rows: int = field(default=0, compare=False)
    placed: frozenset[TopicPartition] = frozenset()
    stamps: dict[TopicPartition, Stamps] = field(default_factory=dict)


class OffsetReader(Protocol):
    """Reads the offset map of one flow, with Spark or without."""

    def runs(self, tp: TopicPartition) -> list[OffsetRun]:
        """Returns a partition's map, merged, for the newest topic id; [] if there is none."""

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        """Returns the newest topic ids' maps, as far as they concern offsets *least* and later.

        Partitions without runs are absent. Of the runs that end before *least* only the last one
        is read, which shows that there were some, and those at which a range without runs begins
        that concerns *least*: years of a sparse partition are many rows.
        """

    def progress(self) -> StoredProgress:
        """Returns how far the flow is replicated."""


def progress_of(newest: Iterable[TableRow]) -> StoredProgress:
    """Returns the progress that the *newest* row of each partition and topic id records.

    Such a row has three more columns: ``replicated_until``, the greatest ``src_until`` of the id,
    and how many ``rows`` and ``compacted`` rows there are of it.
    """
    last_generation, rows, compacted_rows = 0, 0, 0
    anchors: dict[TopicPartition, Anchor] = {}
    until: dict[TopicPartition, int] = {}
    placed: set[TopicPartition] = set()
    stamps: dict[TopicPartition, Stamps] = {}
    for row in sorted(newest, key=itemgetter(*OLDEST_FIRST)):  # the newest topic id stays
        tp = TopicPartition(row["topic"], row["partition"])
        run = _run(row)
        anchors[tp] = Anchor(run.end, row["topic_id"])
        (placed.add if is_placed(run) else placed.discard)(tp)
        epochs = Epochs(row.get("source_epoch"), row.get("target_epoch"))
        stamps[tp] = UNSTAMPED.renewed(run.end, epochs)
        if epochs == UNKNOWN:  # whatever an earlier topic of that name has
            del stamps[tp]
        until[tp] = row["replicated_until"]
        last_generation = max(last_generation, row["generation"])
        rows += row["rows"]
        compacted_rows += row["compacted"]
    return StoredProgress(
        last_generation, anchors, until, rows, compacted_rows, frozenset(placed), stamps
    )


def runs_of(rows: Sequence[TableRow]) -> list[OffsetRun]:
    """Returns the merged runs of one partition's *rows*, oldest first, for the newest topic id."""
    newest = rows[-1]["topic_id"] if rows else None
    return merge_runs(_run(row) for row in rows if row["topic_id"] == newest)


def maps_of(rows: Iterable[TableRow]) -> dict[TopicPartition, TopicMap]:
    """Returns the map of each partition in *rows*, oldest first, for its newest topic id."""
    partitions: dict[TopicPartition, list[TableRow]] = {}
    for row in rows:
        partitions.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    return {tp: _map(of_partition) for tp, of_partition in partitions.items()}


def _run(row: TableRow) -> OffsetRun:
    return OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])


def _map(rows: Sequence[TableRow]) -> TopicMap:
    topic_id = rows[-1]["topic_id"]
    return TopicMap(topic_id, OffsetMap(_run(row) for row in rows if row["topic_id"] == topic_id))
