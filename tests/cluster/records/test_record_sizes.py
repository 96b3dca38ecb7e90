"""Records and batches that are larger than a topic takes."""

from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from replication.demo.workload import ProducedRecord, create_topic, plain_records
from replication.flows.replicate.failures import QueryError
from replication.model import Mode
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_equal, copied, fill, now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

RECORDS = 2000
LIMIT = "max.message.bytes"


@pytest.mark.parametrize(
    ("mode", "limit", "producer"),
    [
        ("realtime", 20_000, {}),
        ("drain", 20_000, {"compression.type": "lz4"}),
        ("drain", 1200, {}),  # one record
        ("drain", 1_000_000, {"batch.size": "4000000"}),
    ],
    ids=["realtime", "compressed", "a record", "a large batch"],
)
def test_a_topic_that_takes_only_small_batches_is_copied(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    limit: int,
    producer: dict[str, str],
) -> None:
    source, target = clusters
    other = f"{topic_name}-other"
    fill(source, other, 1, RECORDS)
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {LIMIT: str(limit)})
    create_topic(source.bootstrap, topic_name, 1)
    records = plain_records(1, size_bytes=1000, now_ms=now_ms())
    send_records(source, topic_name, islice(records, RECORDS))
    settings = {f"B.producer.{key}": value for key, value in producer.items()}
    flow = RunningFlow(
        spark, tmp_path, flow_config(source, target, f"{topic_name}.*", settings), mode
    )

    if mode == "drain":
        flow.join()
    else:
        flow.until(lambda: copied(clusters, topic_name) + copied(clusters, other) >= 2 * RECORDS)
        flow.stop()

    assert_equal(clusters, topic_name, other)


def test_large_records_are_copied_and_a_rejected_one_is_named(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1, {LIMIT: "8000000"})
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {LIMIT: "6000000"})
    large = [ProducedRecord(partition=0, key=None, value=bytes([n]) * 5_000_000) for n in (1, 2)]
    larger = ProducedRecord(partition=0, key=None, value=b"3" * 7_000_000)
    # Kafka's client fits it into the rejected batch, and splits that into itself endlessly.
    small = ProducedRecord(partition=0, key=None, value=b"4")
    send_records(source, topic_name, [*large, larger, small])
    config = flow_config(source, target, topic_name)

    with pytest.raises(QueryError) as rejected:
        RunningFlow(spark, tmp_path, config, "microbatch").join()
    alter_topic(target, f"A.{topic_name}", LIMIT, "8000000")
    RunningFlow(spark, tmp_path, config, "drain").join()

    for fact in (f"{topic_name}-0 offset 2", "8000000", "6000000", LIMIT):
        assert fact in str(rejected.value)
    (report,) = compare(
        source.bootstrap, target.bootstrap, {topic_name: f"A.{topic_name}"}
    ).values()
    assert report.missing == report.extra == 0
