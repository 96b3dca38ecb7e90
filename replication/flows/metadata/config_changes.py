"""Plans and applies the settings of remote topics between two clusters. Needs no Spark."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.model import Topic
from replication.topics.config_sync import (
    Applied,
    SettingChange,
    TopicKey,
    plan_changes,
    split_rejected,
)
from replication.topics.selection import remote_topics, too_long

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The changes of one remote topic."""

    topic: str
    remote: Topic
    changes: tuple[SettingChange, ...]

    @property
    def key(self) -> TopicKey:
        """What the history of the remote topic is filed under."""
        return self.remote.name, self.remote.topic_id


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change; ``rejection`` is the target's reason, None if it accepted."""

    topic: TopicChanges
    change: SettingChange
    rejection: str | None = None


def plan_config_sync(
    config: FlowConfig, source: Cluster, target: Cluster, applied: Mapping[TopicKey, Applied]
) -> tuple[TopicChanges, ...]:
    """What a round would change or record; topics in step are absent.

    Args:
        config: The flow.
        source: Its source cluster.
        target: Its target cluster.
        applied: What earlier rounds applied to each remote topic.

    Raises:
        ClusterError: A cluster does not answer.
    """
    selected = {
        name: remote
        for name, remote in remote_topics(config, source.topic_names()).items()
        if not config.shares(remote)  # its flows would undo each other's changes forever
    }
    of_source, of_target = Rejections(), Rejections()
    of_target.texts.update({selected[name]: text for name, text in too_long(selected).items()})
    remotes = of_target.call(target.describe, selected.values())
    upstream = of_source.call(
        source.topic_config, [name for name, remote in selected.items() if remote in remotes]
    )
    downstream = of_target.call(target.topic_config, remotes)
    for topic, text in {**of_source.texts, **of_target.texts}.items():
        log.warning("settings_not_compared", flow=config.flow, topic=topic, text=text)
    planned = (
        TopicChanges(
            topic,
            remotes[remote],
            plan_changes(
                upstream[topic],
                downstream[remote],
                applied.get((remote, remotes[remote].topic_id), {}),
                config.topic_configs,
            ),
        )
        for topic, remote in selected.items()
        if topic in upstream and remote in downstream
    )
    return tuple(topic for topic in planned if topic.changes)


def apply_changes(target: Cluster, planned: Iterable[TopicChanges]) -> Iterator[Outcome]:
    """Sends the changes and yields what became of each; a rejected one is sent alone.

    Raises:
        ClusterError: The cluster does not answer.
    """
    topics = {topic.remote.name: topic for topic in planned}
    waiting: dict[str, list[tuple[SettingChange, ...]]] = {}
    for name, topic in topics.items():
        due = tuple(change for change in topic.changes if change.is_due)
        waiting[name] = [due] if due else []
        yield from (Outcome(topic, change) for change in topic.changes if not change.is_due)
    while sent := {name: requests.pop(0) for name, requests in waiting.items() if requests}:
        rejections = target.alter_topic_config(
            {name: {it.key: it.value for it in changes} for name, changes in sent.items()}
        )
        for name, changes in sent.items():
            rejection = rejections.get(name)
            settled = changes
            if rejection is not None and rejection.is_for_a_setting:
                settled, others = split_rejected(changes, rejection.reason)
                waiting[name][:0] = others
            reason = rejection.reason if rejection else None
            yield from (Outcome(topics[name], change, reason) for change in settled)
