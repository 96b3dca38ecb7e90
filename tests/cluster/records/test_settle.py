"""Positions are read only when the target's logs stand still."""

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import log_ends
from replication.demo.workload import PacedProducer, create_topic
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.positions.measure import settled_log_ends
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW
from tests.support.topics import plain

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.guarantee
def test_log_ends_settle_only_when_the_other_producer_stops(
    spark: SparkSession, clusters: Clusters, topic_name: str, until: Until
) -> None:
    servers, remote = clusters[1].bootstrap, TopicPartition(topic_name, 0)
    create_topic(servers, topic_name, 1)
    other = PacedProducer(servers, {topic_name: plain(1)}, records_per_second=500)
    other.start()
    until(lambda: log_ends(servers, [topic_name])[topic_name] > 0, 30)

    with Cluster("B", {"bootstrap.servers": servers}) as target:
        still_growing = r"topics on cluster B still grow 3 s .* find the other producer"
        with pytest.raises(ClusterError, match=still_growing):
            settled_log_ends(target, [remote], spark, FLOW, patience_seconds=3)
        shared = {remote}  # by declaration: that it grows is no news
        assert settled_log_ends(target, [remote], spark, FLOW, 3, shared).ends.keys() == shared
        sent = other.finish()[topic_name]

        assert settled_log_ends(target, [remote], spark, FLOW).ends == {remote: sent}
