"""What conf/operations.md says to do when a flow refuses to start."""

from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.compare import compare
from replication.demo.workload import create_topic, plain_records, sending
from replication.errors import GuardError
from tests.running import RunningFlow, flow_config
from tests.support.documents import OPERATIONS, blocks

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FOLDER, TOPIC = "/var/lib/replication", "'orders'"  # in the document
RECORDS = 100


def test_a_topic_is_replicated_again_once_its_rows_are_deleted(
    spark: SparkSession, clusters: tuple[Broker, Broker], tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    create_topic(source.bootstrap, topic_name, 1)
    with sending(source.bootstrap) as sender:
        records = plain_records(1, size_bytes=20, now_ms=1_700_000_000_000)
        sender.send_all(topic_name, islice(records, RECORDS))
    RunningFlow(spark, tmp_path, config, "drain").join()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.delete_topics([f"A.{topic_name}"])[f"A.{topic_name}"].result(30)

    with pytest.raises(GuardError, match=topic_name):
        RunningFlow(spark, tmp_path, config, "drain").join()
    (statement,) = [block for block in blocks(OPERATIONS, "sql") if block.startswith("DELETE")]
    statement = statement.replace(FOLDER, str(tmp_path)).replace(TOPIC, f"'{topic_name}'")
    spark.sql(statement.rstrip(";\n"))
    RunningFlow(spark, tmp_path, config, "drain").join()

    remote = {topic_name: f"A.{topic_name}"}
    (report,) = compare(source.bootstrap, target.bootstrap, remote).values()
    assert report.is_equal, str(report)
    assert report.target_records == RECORDS
