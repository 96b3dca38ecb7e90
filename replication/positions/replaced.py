"""Compares the topics of a plan with those that the clusters have now, by their ids."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.model import Topic
from replication.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class ComparedIds:
    """How the topics of a plan differ from those of a moment, by upstream names.

    Args:
        others: Topics that are other ones now on one of the clusters.
        missing: Topics that one of the clusters does not have. A broker learns of a new topic a
            moment after the others, so one look does not prove it.
        unknown: Topics that a cluster does not tell about.
        described: The topics that are there now: the source's, the target's.
    """

    others: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    described: tuple[Mapping[str, Topic], ...] = ()

    @property
    def changed(self) -> frozenset[str]:
        """Topics that are not those of the plan."""
        return self.others | self.missing


def compare_ids(
    source: Cluster, target: Cluster, plan: TopicPlan, names: Collection[str] | None = None
) -> ComparedIds:
    """Compares the ids of *plan* with those of today: one request to each cluster.

    Args:
        source: The cluster that is read.
        target: The other one.
        plan: The topics.
        names: Those of them to be compared, by upstream names; None for all.

    Raises:
        ClusterError: A cluster does not answer.
    """
    topics = plan.topics if names is None else {name: plan.topics[name] for name in names}
    originals = {name: plan.source_ids[name] for name in topics}
    copies = {name: plan.remote_ids[remote] for name, remote in topics.items()}
    ours = _compare(source, originals, {name: name for name in topics})
    theirs = _compare(target, copies, topics)
    return ComparedIds(
        ours.others | theirs.others,
        ours.missing | theirs.missing,
        ours.unknown | theirs.unknown,
        ours.described + theirs.described,
    )


def _compare(cluster: Cluster, ids: Mapping[str, str], names: Mapping[str, str]) -> ComparedIds:
    """Compares *ids*, by upstream names, with those of *cluster*, where topics have *names*."""
    rejections = Rejections()
    found = rejections.call(partial(cluster.describe, listed=True), names.values())
    unknown = frozenset(topic for topic in ids if names[topic] in rejections.texts)
    shown = {topic: found.get(names[topic]) for topic in ids.keys() - unknown}
    return ComparedIds(
        frozenset(topic for topic, now in shown.items() if now and now.topic_id != ids[topic]),
        frozenset(topic for topic, now in shown.items() if now is None),
        unknown,
        ({topic: now for topic, now in shown.items() if now},),
    )
