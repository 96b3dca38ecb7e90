"""What the mirror's user may not do with the topics of a flow. Changes nothing."""

from dataclasses import dataclass
from typing import Literal

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.topics.needed_acls import Resource, describe_acls, named_topics
from replication.topics.topic_plan import TopicPlan

Operation = Literal["READ", "WRITE"]


@dataclass(frozen=True, slots=True)
class MissingRight:
    """What is not allowed.

    Args:
        alias: The cluster.
        servers: Its ``bootstrap.servers``.
        operation: Kafka's name of what is not allowed.
        topic: With what.
    """

    alias: str
    servers: str
    operation: Operation
    topic: str

    def __str__(self) -> str:
        return f"{self.operation} on topic {self.topic} of {self.alias} is not allowed"

    def line(self, principal: str) -> str:
        """Returns the line of kafka-acls that allows it to *principal*."""
        (line,) = describe_acls(
            {Resource("topic", self.topic): (self.operation,)}, principal, self.servers
        )
        return line


def missing_rights(
    config: FlowConfig, plan: TopicPlan, source: Cluster, target: Cluster
) -> tuple[MissingRight, ...]:
    """Returns what a flow needs of topics that exist, and its user may not do.

    A topic is not listed if the user may do nothing with it, so those that the file names are
    asked for as well.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = [remote for remote in plan.topics.values() if remote in plan.remote_ids]
    letters = [config.letters.letters_topic] if config.letters.kind == "topic" else []
    asked: tuple[tuple[Cluster, Operation, frozenset[str]], ...] = (
        (source, "READ", frozenset(plan.topics) | named_topics(config)),
        (target, "WRITE", frozenset([*copies, *letters])),
        (target, "READ", frozenset([*copies, *letters])),
    )
    return tuple(
        MissingRight(cluster.alias, cluster.servers, operation, name)
        for cluster, operation, topics in asked
        for name in cluster.denied(operation, topics)
    )
