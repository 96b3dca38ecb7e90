"""Topics whose records are numbers, and what a flow made of them."""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Row, SparkSession

from replication.config.tree import FlowConfig
from replication.demo.workload import ProducedRecord
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from replication.offsets.map import OffsetMap, Translation
from tests.support.flows import RunningFlow
from tests.support.local import Addressed
from tests.support.mirror_files import FLOW
from tests.support.stored import stored, stored_runs
from tests.support.topics import now_ms


def numbered(start: int, end: int, timestamp_ms: int | None = None) -> Iterator[ProducedRecord]:
    """Records for partition 0 whose values are numbers."""
    at = now_ms() if timestamp_ms is None else timestamp_ms
    return (
        ProducedRecord(partition=0, key=None, value=b"%d" % number, timestamp_ms=at + number)
        for number in range(start, end)
    )


def numbers(broker: Addressed, topic: str) -> list[int]:
    """The values of the records of partition 0."""
    consumer = {"bootstrap.servers": broker.bootstrap}
    found = read_records(consumer, TopicPartition(topic, 0), 0, 100_000, "read_uncommitted")
    return [int(record.value or b"-1") for record in found]


def drain(spark: SparkSession, state: Path, config: FlowConfig) -> RunningFlow:
    """Runs the flow until everything is copied."""
    flow = RunningFlow(spark, state, config, "drain")
    flow.join()
    return flow


def jump(flow: RunningFlow) -> Row:
    """The only event."""
    (event,) = stored(flow.tables, "events")
    assert event.kind == "jumped"
    return event


def translations(flow: RunningFlow, topic: str, *offsets: int) -> list[Translation]:
    """Where groups with these offsets go on, by the stored map."""
    runs = stored_runs(flow.tables, FLOW, TopicPartition(topic, 0))
    return [OffsetMap(runs).translate(offset) for offset in offsets]
