"""A producer of the demo and the soak ends when its records are not taken."""

import pytest

from replication.demo.paced import PacedProducer
from replication.demo.workload import create_topic, plain_records
from replication.errors import ClusterError
from tests.support.local import Clusters, Until
from tests.support.topics import now_ms

pytestmark = pytest.mark.cluster


def test_a_producer_whose_records_are_rejected_ends_by_itself(
    clusters: Clusters, topic_name: str, until: Until
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1, {"max.message.bytes": "100"})
    records = plain_records(1, size_bytes=1000, now_ms=now_ms())
    producer = PacedProducer(clusters[0].bootstrap, {topic_name: records}, records_per_second=50.0)
    producer.start()
    until(lambda: not producer.is_alive(), 30)

    with pytest.raises(ClusterError, match=f"{topic_name}-0 rejected"):
        producer.finish()
