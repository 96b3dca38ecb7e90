"""A remote partition that retention has emptied tells nothing: plan and event say what follows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.control.plan import Histories, plan_flow
from replication.control.starts import StoredMap
from replication.kafka.cluster import open_clusters
from replication.topics.acls import AclHistory
from replication.topics.configs import SyncHistory
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import copied, delete_records, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_a_copy_that_retention_has_emptied_is_not_filled_again_without_a_word(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    for broker, topic in ((source, topic_name), (target, f"A.{topic_name}")):
        fill(broker, topic, 1, 300)
    delete_records(target, f"A.{topic_name}", 300)

    with open_clusters(config) as both:
        histories = Histories(SyncHistory.of(()), AclHistory.of(()))
        planned = plan_flow(config, None, both, StoredMap({}, {}, lambda _tp: ()), histories)
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == 600
    (start,) = planned.starts
    (event,) = stored(flow.tables, "events")
    assert start.offset == 0
    assert (event.kind, event.reaction, event.text) == ("adopted", "at least once", start.reason)
    for fact in (f"A.{topic_name}-0", "up to offset 300", "replication.takeover.topic"):
        assert fact in event.text
