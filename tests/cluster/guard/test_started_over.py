"""Topics that were deleted and created again: an empty remote partition is filled again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from replication.errors import GuardError
from replication.model import Mode, TopicPartition
from replication.offsets.runs import OffsetRun
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored, stored_runs
from tests.support.topics import assert_equal, copied, delete_records, delete_topic, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def missing(clusters: Clusters, topic: str) -> int:
    """Records of *topic* that its remote topic lacks."""
    source, target = clusters
    (report,) = compare(source.bootstrap, target.bootstrap, {topic: f"A.{topic}"}).values()
    return report.missing


@pytest.mark.guarantee
def test_a_deleted_remote_topic_is_filled_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path, config, "drain").join()
    delete_records(source, topic_name, 40)
    delete_topic(target, f"A.{topic_name}")
    send(source, topic_name, 1, 10)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()
    send(source, topic_name, 1, 10)
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert_equal(clusters, topic_name)
    assert stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0)) == [
        OffsetRun(40, 120, 0, 80)
    ]
    (event,) = stored(flow.tables, "events")
    assert (event.kind, event.partition, event.offset_from) == ("started-over", 0, 40)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_remote_topic_that_is_deleted_while_records_flow_is_filled_again_in_order(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 3, 300)
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, topic_name) == 300)

    delete_topic(target, f"A.{topic_name}")
    for _ in range(10):
        send(source, topic_name, 3, 60)
    flow.until(lambda: copied(clusters, topic_name) >= 900)
    flow.stop()

    assert_equal(clusters, topic_name)
    assert kinds(flow.tables) == ["started-over"] * 3


def test_a_remote_topic_that_somebody_else_creates_again_loses_nothing(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name, {"refresh.topics.interval.seconds": "600"})
    fill(source, topic_name, 2, 200)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) == 200)

    delete_topic(target, f"A.{topic_name}")
    fill(target, f"A.{topic_name}", 1, 0)  # as a broker does that creates topics by itself
    send(source, topic_name, 2, 100)
    flow.until(lambda: len(kinds(flow.tables)) == 2)
    flow.until(lambda: missing(clusters, topic_name) == 0)
    flow.stop()

    assert kinds(flow.tables) == ["started-over", "started-over"]
    rows = [row for row in stored(flow.tables, "events") if row.kind == "started-over"]
    said = {row.partition for row in rows if "records are repeated" in row.text}
    # None were written to the new topic where a look came before the first of them.
    assert said == ({0} if copied(clusters, topic_name) > 300 else set())


@pytest.mark.guarantee
def test_a_source_topic_created_again_starts_over_once_its_remote_topic_is_deleted(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path, config, "drain").join()
    delete_topic(source, topic_name)
    fill(source, topic_name, 1, 300)
    with pytest.raises(GuardError, match="Delete the remote topic"):
        RunningFlow(spark, tmp_path, config, "drain").join()

    delete_topic(target, f"A.{topic_name}")
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == 300
    assert_equal(clusters, topic_name)
    assert kinds(flow.tables) == ["refused", "started-over"]
