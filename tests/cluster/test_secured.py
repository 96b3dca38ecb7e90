"""Every way to connect to a broker: what connects, and how a connection that fails is explained."""

import pytest

from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.model import NewTopic
from tests.support.secured import LISTENERS, Secured

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.parametrize("listener", [it for it in LISTENERS if it not in ("EXPIRED", "ELSEWHERE")])
def test_every_client_connects(secured: Secured, listener: str, topic_name: str) -> None:
    properties = secured.client(listener)
    with Cluster("S", properties) as cluster:
        cluster.create_topics([NewTopic(topic_name, 1, 1)])
        topic = InternalTopic(
            cluster, topic_name, producer=properties, consumer=properties, replication_factor=1
        )
        topic.write([(b"k", b"v"), (b"k2", b"")])

        assert topic_name in cluster.topic_names()
        assert [(it.key, it.value) for it in topic.records()] == [(b"k", b"v"), (b"k2", b"")]
