"""Creates remote topics with all settings of their source topics that the target takes."""

from collections.abc import Collection, Iterator, Mapping

from replication.kafka.cluster import Cluster
from replication.log import Log
from replication.model import Flow, NewTopic, Topic
from replication.topics.configs import by_weight, with_settings
from replication.topics.setting_trials import SettingTrials

log = Log(__name__)


class RemoteTopics:
    """The topics to create on one target; `create` may be called again with some of them.

    Args:
        flow: The flow.
        target: Its target.
        topics: The topics, each with the settings that it should have.

    Attributes:
        made: Those that `create` has created, and no other process at the same moment.
    """

    def __init__(self, flow: Flow, target: Cluster, topics: Collection[NewTopic]) -> None:
        self.log = log.bind(flow)
        self._target = target
        self._topics = {topic.name: topic for topic in topics}
        self._trials: dict[str, SettingTrials] = {}
        self.made = set[str]()

    def create(self, names: Collection[str]) -> dict[str, Topic]:
        """Creates the topics of *names*, and logs the settings that they do not have.

        Raises:
            CallError: The target rejects a topic whatever its settings are, or does not answer.
        """
        wanted = [topic for name, topic in self._topics.items() if name in names]
        created = self._target.create_topics(wanted, self._simplify, self.made)
        for name in sorted(created.keys() & self._trials.keys()):
            self._warn(name, self._trials.pop(name).rejected)
        return created

    def _simplify(self, rejected: Mapping[str, str]) -> Iterator[NewTopic]:
        """Yields *rejected* topics with the largest sets of settings that the target takes."""
        for name, reason in rejected.items():
            trials = SettingTrials.of(by_weight(key for key, _ in self._topics[name].configs))
            if trials.waiting:
                trials.settle(reason)
                self._trials[name] = trials
        while open_trials := {name: self._trials[name] for name in rejected if self._is_open(name)}:
            reasons = self._target.try_topics(
                with_settings(self._topics[name], {*trials.taken, *trials.waiting[0]})
                for name, trials in open_trials.items()
            )
            for name, trials in open_trials.items():
                trials.settle(reasons.get(name))
        for name in rejected:
            if name in self._trials:
                yield with_settings(self._topics[name], self._trials[name].taken)

    def _is_open(self, name: str) -> bool:
        return name in self._trials and bool(self._trials[name].waiting)

    def _warn(self, name: str, reasons: Mapping[str, str]) -> None:
        values = dict(self._topics[name].configs)
        for key, reason in reasons.items():
            self.log.warning(
                "setting_rejected",
                topic=name,
                key=key,
                value=values[key],
                text=f"the topic was created without this setting: {reason}",
            )
