"""What is asked of a flow's source now and then: the age of a backlog, and what deletes it."""

import time
from collections.abc import Mapping
from itertools import islice
from typing import Final

from replication.config.tree import ClusterConfig
from replication.figures.clocks import jumped
from replication.flows.observe.sight import FlowSight
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import Reader
from replication.model import TopicPartition
from replication.upkeep.prepare import topic_losses

EACH_SECONDS: Final = 60.0
MOST_READ: Final = 20
"""Partitions from which a record is read each minute."""

SEARCHED_OFFSETS: Final = 1_000
"""How far a record is searched: the first offsets may hold none."""

PATIENCE_SECONDS: Final = 5.0
CLIENT: Final = "replication-observe"


class RareQuestions:
    """Asks about one flow, at most once a minute: what is set right is seen within that time."""

    def __init__(self) -> None:
        self._asked_at = -EACH_SECONDS

    def ask(self, sight: FlowSight) -> None:
        """Asks what is due; the answers are for the next looks.

        Raises:
            ReplicationError: The source does not answer, or denies it.
        """
        if time.monotonic() - self._asked_at < EACH_SECONDS:
            return
        behind = sight.topics.behind
        backlog = list(islice(sight.partitions.of_unknown_age(sight.copying), MOST_READ))
        topics, losses = sight.copying.topics, sight.context.board.losses
        less = {topic: topics[topic] for topic in losses if topic in topics}
        if not behind and not backlog and not less:
            sight.kept = frozenset()
            return
        self._asked_at = time.monotonic()
        if backlog:
            _read(sight, backlog)
        sight.topics.headroom = _headroom(sight, behind) if behind else {}
        sight.kept = _kept(sight, less)


def _read(sight: FlowSight, backlog: list[tuple[TopicPartition, int, int]]) -> None:
    """Reads the first record of each partition of *backlog*: no look tells its age."""
    spans = {tp: (at, min(end, at + SEARCHED_OFFSETS)) for tp, at, end in backlog}

    def visit(tp: TopicPartition, record: KafkaRecord) -> bool:
        if record.timestamp_ms >= 0:
            sight.partitions.read(tp, spans[tp][0], record.timestamp_ms / 1000 - jumped())
        return True

    with Reader(sight.config.source.consumer, sight.config.isolation) as reader:
        reader.visit(spans, visit)


def _kept(sight: FlowSight, topics: Mapping[str, str]) -> frozenset[str]:
    """Returns those of *topics*, with their remote names, that the target keeps all of by now."""
    if not topics:
        return frozenset()
    with _cluster(sight.config.source) as source, _cluster(sight.config.target) as target:
        return frozenset(topics.keys() - topic_losses(topics, source, target).keys())


def _cluster(config: ClusterConfig) -> Cluster:
    return Cluster(config.alias, config.admin, client_id=CLIENT, patience_s=PATIENCE_SECONDS)


def _headroom(sight: FlowSight, behind: dict[str, float]) -> dict[str, float]:
    """Returns how long until the source deletes what of the topics *behind* is not copied."""
    with _cluster(sight.config.source) as cluster:
        settings = cluster.topic_config(behind)
    found: dict[str, float] = {}
    for topic, own in settings.items():
        retention = int(own["retention.ms"].value or -1) if "retention.ms" in own else -1
        if retention >= 0 and "delete" in (own["cleanup.policy"].value or ""):
            found[topic] = max(0.0, retention / 1000 - behind[topic])
    return found
