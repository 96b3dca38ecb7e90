"""How producers of the demo and the soak end: with what they sent in sight, or with its error."""

from itertools import islice

import pytest

from replication.demo.workload import PacedProducer, create_topic, plain_records, sending
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
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


def test_readers_know_how_the_transactions_of_a_finished_sender_ended(
    clusters: Clusters, topic_name: str
) -> None:
    """A commit alone returns before its markers are in the partitions: here often enough."""
    tps = [TopicPartition(topic_name, number) for number in range(50)]
    create_topic(clusters[0].bootstrap, topic_name, len(tps))
    with Cluster("A", {"bootstrap.servers": clusters[0].bootstrap}) as cluster:
        for number in range(20):
            records = islice(plain_records(len(tps), size_bytes=20, now_ms=now_ms()), len(tps))
            with (
                sending(clusters[0].bootstrap, transactional_id=topic_name) as sender,
                sender.transaction(abort=number % 2 == 0),
            ):
                sender.send_all(topic_name, records)

            assert cluster.log_ends(tps, "read_committed") == cluster.log_ends(tps)
