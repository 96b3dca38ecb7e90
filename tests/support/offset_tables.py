"""Writes an offset map to a state directory without Spark, for tests of what only reads it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from arro3.core import Array, DataType, Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from replication.model import Flow, TopicPartition
from replication.offsets.runs import OffsetRun

TEXT, INT, LONG = DataType.utf8(), DataType.int32(), DataType.int64()
TIME = DataType.timestamp("us", tz="UTC")
TYPES = {
    "flow": TEXT,
    "generation": LONG,
    "topic": TEXT,
    "partition": INT,
    "topic_id": TEXT,
    "src_from": LONG,
    "src_until": LONG,
    "tgt_from": LONG,
    "count": LONG,
    "first_batch": LONG,
    "last_batch": LONG,
    "written_at": TIME,
    "source_epoch": INT,
    "target_epoch": INT,
}


def write_offset_map(
    state_dir: Path,
    flow: Flow,
    maps: Mapping[TopicPartition, Iterable[OffsetRun]],
    topic_id: str = "id-1",
) -> None:
    """Writes the runs of *maps* as one generation of *flow*; all topics get the same id."""
    rows = [
        {
            "flow": str(flow),
            "generation": 1,
            "topic": tp.topic,
            "partition": tp.partition,
            "topic_id": topic_id,
            "src_from": run.src_from,
            "src_until": run.src_until,
            "tgt_from": run.tgt_from,
            "count": run.count,
            "first_batch": 0,
            "last_batch": 0,
            "written_at": 0,
            "source_epoch": 0,  # that of a new topic's first leader
            "target_epoch": 0,
        }
        for tp, runs in maps.items()
        for run in runs
    ]
    columns: dict[str, Any] = {
        name: _column([row[name] for row in rows], kind) for name, kind in TYPES.items()
    }
    table = Table.from_pydict(columns)
    write_deltalake(str(state_dir / "offset_runs"), table, partition_by=["flow"], mode="append")


def forget_epochs(state_dir: Path) -> None:
    """Leaves the offset map as a version has written it that knew no leader epochs."""
    table = DeltaTable(str(state_dir / "offset_runs"))
    sql = "SELECT * EXCEPT (source_epoch, target_epoch) FROM stored"
    rows = QueryBuilder().register("stored", table).execute(sql).read_all()
    write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")


def _column(values: list[object], kind: DataType) -> Array:
    return Array(values, type=LONG).cast(kind) if kind == TIME else Array(values, type=kind)
