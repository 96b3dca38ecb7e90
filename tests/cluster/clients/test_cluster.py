"""A cluster tells its topics, offsets and records, whichever client asks."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from replication.demo.brokers import Broker
from replication.errors import ClusterError
from replication.kafka.api import Call, KafkaRecord
from replication.kafka.calls import Calls
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.kafka.internal_topic import InternalTopic
from replication.kafka.jvm import java_map, shared_jvm
from replication.kafka.reader import read_records
from replication.model import NewTopic, Topic, TopicPartition, TopicSetting
from tests.support.clients import properties
from tests.support.local import Clusters, Until
from tests.support.topics import delete_topic

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("each_client")]

TRANSACTIONS = "transactional.id"


@pytest.fixture
def cluster(clusters: Clusters) -> Cluster:
    return Cluster("A", {"bootstrap.servers": clusters[0].bootstrap})


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> Topic:
    """A topic; ``_`` in a key of *configs* stands for a dot."""
    settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
    return cluster.create_topics([NewTopic(name, partitions, -1, settings)])[name]


def send(broker: Broker, topic: str, *values: bytes, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=0, timestamp=1_000 + number)
    assert producer.flush(30) == 0


def test_an_internal_topic_that_is_not_as_it_must_be_is_named_with_the_command_that_corrects_it(
    cluster: Cluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, f"{topic_name}-unfit", partitions=2)
    create(cluster, f"{topic_name}-fit", cleanup_policy="compact")
    for name in (f"{topic_name}-unfit", f"{topic_name}-fit", f"{topic_name}-new"):
        topic = InternalTopic(cluster, name, producer={}, consumer={}, replication_factor=1)
        topic.create()
        topic.create()

    lines = [record.getMessage() for record in caplog.records if "unfit" in record.getMessage()]
    assert len(lines) == 2
    assert f"kafka-configs --bootstrap-server {cluster.servers} --alter" in lines[0]
    assert f"kafka-topics --bootstrap-server {cluster.servers} --delete" in lines[1]


def test_aliases_of_one_cluster_have_one_id(clusters: Clusters) -> None:
    ids = [
        Cluster(alias, properties(broker)).cluster_id()
        for alias, broker in (("A", clusters[0]), ("again", clusters[0]), ("B", clusters[1]))
    ]

    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("id_seconds", [60.0, 0.0])
def test_a_list_of_topics_brings_the_clusters_id_which_is_known_for_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, id_seconds: float
) -> None:
    own_id = cluster.cluster_id()
    monkeypatch.setattr("replication.kafka.cluster.ID_SECONDS", id_seconds)
    cluster.topic_names()
    asked: list[str] = []
    ask = Calls.ask

    def counted(calls: Calls, call: Call, send: Callable[[float], Any]) -> object:
        asked.append(str(call))
        return ask(calls, call, send)

    monkeypatch.setattr(Calls, "ask", counted)
    ids = {cluster.cluster_id() for _ in range(3)}

    assert ids == {own_id}
    assert asked == ([] if id_seconds else ["reading the cluster id"] * 3)


def test_a_created_topic_is_visible_at_once(cluster: Cluster, topic_name: str) -> None:
    made = create(cluster, topic_name, 3, max_message_bytes="2000000")

    assert made == Topic(topic_name, made.topic_id, 3)
    assert cluster.describe([topic_name, "missing"]) == {topic_name: made}
    assert topic_name in cluster.topic_names()
    assert cluster.max_message_bytes([topic_name, "missing"]) == {topic_name: 2_000_000}
    settings = cluster.topic_config([topic_name, "missing"])
    assert list(settings) == [topic_name]
    assert settings[topic_name]["max.message.bytes"] == TopicSetting("2000000", "topic")
    assert settings[topic_name]["cleanup.policy"] == TopicSetting("delete", "default")
    assert settings[topic_name]["retention.ms"] == TopicSetting("-1", "server.properties")


def test_creating_and_growing_twice_changes_nothing(cluster: Cluster, topic_name: str) -> None:
    first = create(cluster, topic_name, 2)

    assert create(cluster, topic_name, 5) == first
    grown = cluster.create_partitions({topic_name: 4})[topic_name]
    assert (grown.topic_id, grown.partitions) == (first.topic_id, 4)
    assert cluster.create_partitions({topic_name: 4}) == {topic_name: grown}
    assert cluster.create_partitions({topic_name: 3}) == {topic_name: grown}


def test_a_recreated_topic_has_another_id(
    cluster: Cluster, clusters: Clusters, topic_name: str
) -> None:
    first = create(cluster, topic_name)
    delete_topic(clusters[0], topic_name)

    assert create(cluster, topic_name).topic_id != first.topic_id


def test_both_clients_write_the_ids_of_topics_alike(
    clusters: Clusters, cluster: Cluster, topic_name: str
) -> None:
    names = [create(cluster, f"{topic_name}-{number}").name for number in range(12)]
    java = Cluster("A", {"bootstrap.servers": clusters[0].bootstrap}, prefers_java=True)

    found = {name: topic.topic_id for name, topic in cluster.describe(names).items()}

    assert {name: topic.topic_id for name, topic in java.describe(names).items()} == found
    # half of all ids have one of the two letters that the clients write differently
    assert len(found) == len(names)


def test_empty_requests_have_empty_results(cluster: Cluster) -> None:
    assert cluster.describe([]) == {}
    assert cluster.log_ends([]) == {}
    assert cluster.create_topics([]) == {}
    assert cluster.create_partitions({}) == {}


def test_a_reason_that_many_have_is_said_once(cluster: Cluster, topic_name: str) -> None:
    topics = [NewTopic(f"{topic_name}-{n}", 0, -1, ()) for n in range(30)]

    with pytest.raises(ClusterError) as refused:
        cluster.create_topics(topics)

    text = str(refused.value)
    assert f"{topic_name}-0, {topic_name}-1, " in text
    assert " and 25 more: " in text
    assert len(text) < 1500


def test_a_rejected_topic_does_not_stop_the_others(
    cluster: Cluster, topic_name: str, until: Until
) -> None:
    good = NewTopic(f"{topic_name}-good", 1, 1)

    with pytest.raises(ClusterError) as failure:
        cluster.create_topics([NewTopic(topic_name, 1, 3), NewTopic("not a name", 1, 1), good])

    text = str(failure.value)
    assert "cluster A (bootstrap.servers=127.0.0.1:" in text
    assert f"{topic_name}: Unable to replicate the partition 3 time(s)" in text
    assert "only 1 broker(s)" in text
    assert "set replication.factor to at most the number of brokers of cluster A" in text
    assert "not a name: Topic name is invalid" in text
    until(lambda: cluster.describe([good.name]), 30)


def test_offsets(cluster: Cluster, clusters: Clusters, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    send(clusters[0], topic_name, b"a", b"b", b"c")
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    absent = [TopicPartition(topic_name, 2), TopicPartition("missing", 0)]

    assert cluster.log_ends([first, second, *absent]) == {first: 3, second: 0}
    assert cluster.earliest([first, second, *absent]) == {first: 0, second: 0}
    times = dict.fromkeys([first, second, *absent], 1_001)
    assert cluster.offsets_for_time(times) == {first: 1, second: 0}
    assert cluster.offsets_for_time({first: 1_003, second: 1}) == {first: 3, second: 0}


def test_how_long_brokers_remember_a_producer(cluster: Cluster) -> None:
    assert cluster.producer_expiration_ms() == 86_400_000  # Kafka's default


def test_an_open_transaction_bounds_the_committed_log_end(
    cluster: Cluster, clusters: Clusters, topic_name: str, until: Until
) -> None:
    tp = TopicPartition(topic_name, 0)
    create(cluster, topic_name)
    send(clusters[0], topic_name, b"a", b"b")
    producer = Producer({**properties(clusters[0]), TRANSACTIONS: topic_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"undecided", partition=0)
    producer.flush(30)

    assert cluster.log_ends([tp]) == {tp: 3}
    assert cluster.log_ends([tp], "read_committed") == {tp: 2}
    assert [r.value for r in read(clusters[0], tp, 0, 9, "read_committed")] == [b"a", b"b"]

    producer.abort_transaction(30)
    until(lambda: cluster.log_ends([tp], "read_committed") == {tp: 4}, 30)
    assert [r.offset for r in read(clusters[0], tp, 0, 9, "read_committed")] == [0, 1]
    send(clusters[0], topic_name, b"c")
    assert [r.offset for r in read(clusters[0], tp, 0, 4, "read_committed")] == [0, 1]
    assert [r.offset for r in read(clusters[0], tp, 0, 9)] == [0, 1, 2, 4]


def test_what_is_created_takes_records_in_each_partition_at_once(
    cluster: Cluster, clusters: Clusters, topic_name: str
) -> None:
    """A first batch that is refused and a second one that is not would be out of order for ever."""
    clients, count = shared_jvm().org.apache.kafka.clients.producer, 300
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    once = {"retries": "0", "enable.idempotence": "false"}
    serializers = {f"{part}.serializer": serializer for part in ("key", "value")}
    settings = {**properties(clusters[0]), **once, **serializers}
    producer = clients.KafkaProducer(java_map(shared_jvm(), settings))

    cluster.create_topics([NewTopic(topic_name, count, -1)])
    sent = [
        producer.send(clients.ProducerRecord(topic_name, partition, None, b"v"))
        for partition in reversed(range(count))
    ]

    for result in sent:
        result.get()  # raises what the broker said
    producer.close()
    delete_topic(clusters[0], topic_name)  # the broker is that of other tests, too


def test_a_deleted_topic_is_absent_everywhere(
    cluster: Cluster, clusters: Clusters, topic_name: str
) -> None:
    tp = TopicPartition(topic_name, 0)
    create(cluster, topic_name)
    assert cluster.log_ends([tp]) == {tp: 0}
    delete_topic(clusters[0], topic_name)

    assert cluster.describe([topic_name]) == {}
    assert cluster.log_ends([tp]) == {}
    assert cluster.max_message_bytes([topic_name]) == {}
    with pytest.raises(CallError, match=f"reading {topic_name}-0 failed"):
        read(clusters[0], tp, 0, 9)
    with pytest.raises(CallError) as failure:
        cluster.create_partitions({topic_name: 2})
    assert failure.value.code == "UNKNOWN_TOPIC_OR_PARTITION"


def read(
    broker: Broker, tp: TopicPartition, start: int, end: int, isolation: str = "read_uncommitted"
) -> list[KafkaRecord]:
    committed = isolation == "read_committed"
    return read_records(
        properties(broker), tp, start, end, "read_committed" if committed else "read_uncommitted"
    )


def test_records_are_read_as_they_are_in_the_log(
    cluster: Cluster, clusters: Clusters, topic_name: str
) -> None:
    create(cluster, topic_name)
    headers: Any = [("h", b"\xff"), ("h", None), ("a", b"")]
    producer = Producer(properties(clusters[0]))
    producer.produce(topic_name, b"\xff\x00", key=b"", partition=0, timestamp=5, headers=headers)
    producer.produce(topic_name, None, key=b"k", partition=0, timestamp=6)
    producer.produce(topic_name, b"", key=None, partition=0, timestamp=7)
    producer.flush(30)

    assert read(clusters[0], TopicPartition(topic_name, 0), 0, 3) == [
        KafkaRecord(0, 5, b"", b"\xff\x00", (("h", b"\xff"), ("h", None), ("a", b""))),
        KafkaRecord(1, 6, b"k", None, ()),
        KafkaRecord(2, 7, None, b"", ()),
    ]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(1, 3, [1, 2], id="inside"),
        pytest.param(0, 1, [0], id="one record"),
        pytest.param(3, 99, [3], id="end beyond the log"),
        pytest.param(4, 99, [], id="at the log's end"),
        pytest.param(90, 99, [], id="beyond the log"),
        pytest.param(2, 2, [], id="nothing wanted"),
    ],
)
def test_the_bounds_of_a_read(
    cluster: Cluster,
    clusters: Clusters,
    topic_name: str,
    start: int,
    end: int,
    expected: list[int],
) -> None:
    create(cluster, topic_name)
    send(clusters[0], topic_name, b"0", b"1", b"2", b"3")

    records = read(clusters[0], TopicPartition(topic_name, 0), start, end)

    assert [record.offset for record in records] == expected
