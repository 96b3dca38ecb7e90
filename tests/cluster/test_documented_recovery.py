"""What conf/operations.md says to do with a topic that no longer fits its position."""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from replication.errors import GuardError
from tests.support.documents import OPERATIONS, blocks
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.topics import assert_equal, copied, delete_topic, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

STATE_DIR, TOPIC = "/var/lib/replication", "orders"  # in the document
RECORDS = 100


def test_a_topic_is_replicated_again_once_its_rows_are_deleted(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, RECORDS)
    RunningFlow(spark, tmp_path, config, "drain").join()
    delete_topic(target, f"A.{topic_name}")

    with pytest.raises(GuardError, match=topic_name):
        RunningFlow(spark, tmp_path, config, "drain").join()
    (code,) = blocks(OPERATIONS, "python")
    code = code.replace(STATE_DIR, str(tmp_path)).replace(TOPIC, topic_name)
    (table, rows), *_ = re.findall(r'DeltaTable\("(.+)"\)\.delete\("(.+)"\)', code)
    DeltaTable(table).delete(rows)
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert copied(clusters, topic_name) == RECORDS
    assert_equal(clusters, topic_name)
