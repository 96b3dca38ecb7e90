"""Two clusters, topics on them, and a flow between them whose topics are planned and created."""

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.model import NewTopic

Sides = tuple[Cluster, Cluster]
"""The source and the target."""


def flow_config(topics: str, **settings: str) -> FlowConfig:
    """The flow A->B; ``_`` in a key stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    flat = {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "A->B.enabled": "true",
        "heartbeats.replication.enabled": "false",
        "topics": topics,
        **keys,
    }
    return parse("test", flat, default_state_dir="file:///state").flows[0]


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic; ``_`` in a key of *configs* stands for a dot."""
    settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
    cluster.create_topics([NewTopic(name, partitions, -1, settings)])
