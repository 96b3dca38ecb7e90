"""One Kafka cluster as the control plane sees it: topics, offsets, settings. Never reads a record.

Every call is one batched request, retried while its failure is a passing one, and ends within the
configured timeout in an answer or in a `ClusterError` that names call, cluster, value, next step.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (
    NewPartitions,
    OffsetSpec,
)
from confluent_kafka.admin import NewTopic as KafkaNewTopic

from replication.kafka.calls import Calls
from replication.kafka.diagnosis import NOT_FOUND
from replication.kafka.topic_settings import (
    REJECTED_SETTING,
    Rejection,
    alter_settings,
    describe_settings,
    read_setting,
)
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

if TYPE_CHECKING:
    from concurrent.futures import Future


class Cluster(AbstractContextManager["Cluster"]):
    """One Kafka cluster, through confluent-kafka's AdminClient. Threads may share it.

    Args:
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        client_id: Role, added to the ``client.id`` that *properties* may have.
    """

    def __init__(
        self, alias: str, properties: Mapping[str, str], *, client_id: str = "replication-admin"
    ) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._calls = Calls(alias, properties, client_id)
        self._admin = self._calls.admin

    def __exit__(self, *_: object) -> None:
        """Let go of the connections; the cluster cannot be asked afterwards."""
        del self._admin, self._calls

    def __repr__(self) -> str:
        return f"Cluster({self.alias!r}, {self.servers!r})"

    def cluster_id(self) -> str:
        """The id the cluster gave itself: equal for two aliases of one cluster."""

        def ask(keys: Collection[str], timeout_s: float) -> dict[str, "Future[Any]"]:
            answer: Any = self._admin.describe_cluster(request_timeout=timeout_s)
            return dict.fromkeys(keys, answer)

        answers = self._calls.results("tell its cluster id", ask, ["cluster id"])
        return str(self._calls.accepted("tell its", answers)["cluster id"].cluster_id)

    def topic_names(self) -> set[str]:
        """The names of all topics this user may see, Kafka's own among them."""
        listed = self._calls.blocking("list topics", self._admin.list_topics)
        return set(listed.topics)

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of *names* that exist."""
        asked = self._calls.results(
            "describe topics",
            lambda keys, s: self._admin.describe_topics(
                TopicCollection(list(keys)), request_timeout=s
            ),
            names,
        )
        return {
            name: Topic(name, str(found.topic_id), len(found.partitions))
            for name, found in self._calls.accepted("describe topic", asked, NOT_FOUND).items()
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset each partition still holds; partitions that do not exist are absent."""
        return self._offsets(partitions, OffsetSpec.earliest(), "read_uncommitted")

    def log_ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """The next offset to be written; partitions that do not exist are absent.

        With ``read_committed`` it is the last stable offset: where an open transaction starts.
        """
        return self._offsets(partitions, OffsetSpec.latest(), isolation)

    def offsets_for_time(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset whose record is as young as *timestamp_ms*, or the log end if none is.

        Partitions that do not exist are absent.
        """
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms), "read_committed")
        return found | self.log_ends([tp for tp, offset in found.items() if offset < 0])

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> int:
        """As `offsets_for_time`, of one partition; 0 if it does not exist."""
        return self.offsets_for_time([partition], timestamp_ms).get(partition, 0)

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        simplify: Callable[[NewTopic, str], NewTopic | None] = lambda _topic, _reason: None,
    ) -> dict[str, Topic]:
        """Create what does not exist yet, and wait until the cluster shows all of *topics*.

        Topics that exist are left as they are, whatever their partition count. A rejected topic
        stops none of the others; the error then names every rejected one.

        Args:
            topics: The topics.
            simplify: Called with a topic that was rejected for a setting, and with the reason;
                returns the topic to try instead, None to give up.
        """
        wanted = {topic.name: topic for topic in topics}
        asked: dict[str, KafkaError | None] = {}
        pending = wanted
        while pending:
            answers = self._create(pending)
            asked |= answers
            simpler = {
                name: simplify(pending[name], answer.str())
                for name, answer in answers.items()
                if isinstance(answer, KafkaError) and answer.name() in REJECTED_SETTING
            }
            pending = {name: topic for name, topic in simpler.items() if topic is not None}
        self._calls.accepted("create topic", asked, {"TOPIC_ALREADY_EXISTS"})
        return self.wait_until_visible(dict.fromkeys(wanted, 1))

    def _create(self, topics: Mapping[str, NewTopic]) -> dict[str, "KafkaError | None"]:
        """The answer to the creation of each of *topics*."""
        return self._calls.results(
            "create topics",
            lambda keys, s: self._admin.create_topics(
                [_kafka_topic(topics[key]) for key in keys], request_timeout=s
            ),
            topics,
        )

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, Topic]:
        """Grow each topic to its count of *counts*, and wait until the cluster shows it.

        Topics that have as many or more are left alone.
        """
        asked = self._calls.results(
            "add partitions",
            lambda keys, s: self._admin.create_partitions(
                [NewPartitions(key, counts[key]) for key in keys], request_timeout=s
            ),
            counts,
        )
        self._calls.accepted("add partitions to topic", asked, {"INVALID_PARTITIONS"})
        return self.wait_until_visible(counts)

    def wait_until_visible(self, counts: Mapping[str, int]) -> dict[str, Topic]:
        """The topics of *counts*, once the cluster shows each with at least that many partitions.

        Raises:
            CallError: It still does not when the timeout has passed.
        """
        shown: dict[str, Topic] = {}

        def hidden() -> list[str]:
            shown.update(self.describe(counts))
            return [
                name
                for name, count in counts.items()
                if name not in shown or shown[name].partitions < count
            ]

        self._calls.until_nothing(hidden, "show created topics and partitions")
        return shown

    def topic_config(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """All settings of each topic that exists, by Kafka's names: ``max.message.bytes``."""
        asked = self._calls.results(
            "read topic settings",
            lambda keys, s: describe_settings(self._admin, keys, s),
            topics,
        )
        return {
            name: {key: read_setting(entry) for key, entry in settings.items()}
            for name, settings in self._calls.accepted(
                "read settings of topic", asked, NOT_FOUND
            ).items()
        }

    def alter_topic_config(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, Rejection]:
        """Sets the settings of each topic, and removes those whose value is None.

        The changes of one topic are accepted or rejected together.

        Returns:
            The topics whose changes were rejected, and why.
        """
        answers = self._calls.results(
            "change topic settings",
            lambda keys, s: alter_settings(self._admin, {key: changes[key] for key in keys}, s),
            changes,
        )
        return {
            name: Rejection(answer.name(), answer.str())
            for name, answer in answers.items()
            if isinstance(answer, KafkaError)
        }

    def max_message_bytes(self, topics: Iterable[str]) -> dict[str, int]:
        """The largest record batch each topic takes, in bytes; missing topics are absent."""
        key = "max.message.bytes"
        return {
            topic: int(settings[key].value or 0)
            for topic, settings in self.topic_config(topics).items()
        }

    def _offsets(
        self, partitions: Iterable[TopicPartition], which: OffsetSpec, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        level = IsolationLevel[isolation.upper()]

        def ask(keys: Collection[TopicPartition], s: float) -> dict[TopicPartition, "Future[Any]"]:
            asked = self._admin.list_offsets(
                {KafkaTopicPartition(*key): which for key in keys},
                isolation_level=level,
                request_timeout=s,
            )
            return {TopicPartition(tp.topic, tp.partition): f for tp, f in asked.items()}

        answers = self._calls.results("tell offsets of", ask, partitions, self._exists)
        return {
            tp: found.offset
            for tp, found in self._calls.accepted("tell the offset of", answers, NOT_FOUND).items()
        }

    def _exists(self, partition: TopicPartition) -> bool:
        """Whether *partition* is in the cluster's metadata."""
        shown = self.describe([partition.topic]).get(partition.topic)
        return shown is not None and partition.partition < shown.partitions


def _kafka_topic(topic: NewTopic) -> KafkaNewTopic:
    return KafkaNewTopic(
        topic.name, topic.partitions, topic.replication_factor, config=dict(topic.configs)
    )
