"""Both kinds of clients give the same values for the same questions to a real broker."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from py4j.protocol import Py4JJavaError

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running
from replication.demo.workload import create_topic
from replication.kafka.acls import TopicAcls
from replication.kafka.api import (
    EARLIEST,
    LATEST,
    NEWEST,
    Admin,
    ClientError,
    ClientFailure,
    KafkaRecord,
    LogOffset,
    Records,
)
from replication.kafka.calls import open_admin, open_records, open_sender
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import UNREACHABLE, CallError
from replication.kafka.java_clients import JavaRecords
from replication.kafka.jvm import kafka_jars, open_jvm, shared_jvm
from replication.kafka.reader import Reader
from replication.model import NewTopic, Topic, TopicAcl, TopicPartition, TopicSetting
from tests.support.clients import properties
from tests.support.cut_log import damage_log, log_bytes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.cluster

T = TypeVar("T")
S = 20.0
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TRANSACTIONS = "transactional.id"
KAFKA_SPELLING = str.maketrans("+/", "-_")
"""librdkafka spells a topic's id with other characters; `Cluster` has one spelling for both."""


@pytest.fixture(scope="module")
def broker(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    settings = replace(broker_settings, properties={**broker_settings.properties, **AUTHORIZER})
    made = Broker("A", tmp_path_factory.mktemp("contract"), settings)
    with running(made):
        yield made
        made.kill()


@pytest.fixture(scope="module")
def admins(broker: Broker) -> Iterator[tuple[Admin, Admin]]:
    """confluent-kafka's and Java's."""
    both = (
        open_admin(properties(broker), "contract", S),
        open_admin(properties(broker), "contract", S, prefers_java=True),
    )
    yield both
    for admin in both:
        admin.close()


def same(admins: tuple[Admin, Admin], ask: Callable[[Admin], T]) -> T:
    """The answer of both, which is the same one."""
    ours, theirs = map(ask, admins)
    assert ours == theirs
    return ours


def codes(answers: dict[str, T | ClientFailure]) -> dict[str, str]:
    """Kafka's names of the errors, without their texts, which are the brokers' or the clients'."""
    return {
        key: failure.code if isinstance(failure, ClientFailure) else ""
        for key, failure in answers.items()
    }


def create(admins: tuple[Admin, Admin], name: str, partitions: int = 1, **configs: str) -> None:
    """A topic that the broker has heard of, which is a moment after the controller's answer."""
    settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
    assert admins[0].create([NewTopic(name, partitions, -1, settings)], S) == {name: None}
    wait_until(lambda: isinstance(admins[0].topics([name], S)[name], Topic), S)


def test_a_cluster_and_its_topics(admins: tuple[Admin, Admin], topic_name: str) -> None:
    create(admins, topic_name, 3)

    listing = same(admins, lambda admin: admin.listing(S))
    assert topic_name in listing.topics
    assert all(address.startswith(HOST) for address in listing.brokers.values())
    leader = next(iter(listing.brokers))
    ids = set[str]()
    for admin in admins:
        found = admin.topics([topic_name, "missing"], S)
        described = found[topic_name]
        assert not isinstance(described, ClientFailure)
        assert (described.name, described.partitions) == (topic_name, 3)
        assert (described.leaders, described.leaderless) == ((leader,) * 3, frozenset())
        assert codes({"missing": found["missing"]}) == {"missing": "UNKNOWN_TOPIC_OR_PARTITION"}
        ids.add(described.topic_id.translate(KAFKA_SPELLING))
    assert len(ids) == 1
    rights = same(admins, lambda admin: admin.rights([topic_name], S)[topic_name])
    assert isinstance(rights, frozenset)
    assert {"READ", "WRITE", "DESCRIBE_CONFIGS"} <= rights


def test_each_question_is_answered_by_what_is_so_now(
    admins: tuple[Admin, Admin], topic_name: str
) -> None:
    create(admins, topic_name)

    for admin in admins:
        grows(admin, topic_name)


def grows(admin: Admin, topic: str) -> None:
    """Adds a partition to *topic*, of which *admin* tells."""

    def partitions() -> int:
        described = admin.topics([topic], S)[topic]
        assert not isinstance(described, ClientFailure)
        return described.partitions

    before = partitions()
    admin.topics([topic], S).clear()  # an answer is its caller's own
    assert partitions() == before
    assert codes(admin.grow({topic: before + 1}, S)) == {topic: ""}
    wait_until(lambda: partitions() == before + 1, S)


def test_an_answer_is_of_what_was_asked_whatever_others_ask_meanwhile(
    admins: tuple[Admin, Admin], topic_name: str
) -> None:
    create(admins, topic_name)
    create(admins, f"{topic_name}-other")
    for admin in admins:
        found = between_lines(
            lambda admin=admin: admin.topics([topic_name], S),  # type: ignore[misc]
            lambda admin=admin: admin.topics([f"{topic_name}-other"], S),  # type: ignore[misc]
        )
        assert list(found) == [topic_name]


def between_lines(ask: Callable[[], T], other: Callable[[], object]) -> T:
    """Calls *ask*, and *other* before each line of `topics`, as other threads may do."""

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_name == "topics":
            if event == "line":
                other()  # which is not traced itself
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        return ask()
    finally:
        sys.settrace(before)


def test_topics_are_created_grown_and_deleted_or_it_is_said_why_not(
    admins: tuple[Admin, Admin], topic_name: str
) -> None:
    create(admins, topic_name, 2)
    new = f"{topic_name}-new"
    wanted = [
        NewTopic(new, 1, -1, (("cleanup.policy", "compact"),)),
        NewTopic(topic_name, 1, -1),
        NewTopic("not a name", 1, -1),
        NewTopic(f"{topic_name}-3", 1, 3),
        NewTopic(f"{topic_name}-x", 1, -1, (("cleanup.policy", "nonsense"),)),
    ]
    expected = {
        new: "",
        topic_name: "TOPIC_ALREADY_EXISTS",
        "not a name": "INVALID_TOPIC_EXCEPTION",
        f"{topic_name}-3": "INVALID_REPLICATION_FACTOR",
        f"{topic_name}-x": "INVALID_CONFIG",
    }

    assert (
        same(admins, lambda admin: codes(admin.create(wanted, S, validate_only=True))) == expected
    )
    for admin in admins:
        assert codes(admin.create(wanted, S)) == expected
        assert codes(admin.grow({new: 2, topic_name: 1, "missing": 2}, S)) == {
            new: "",
            topic_name: "INVALID_PARTITIONS",
            "missing": "UNKNOWN_TOPIC_OR_PARTITION",
        }
        deleted = admin.delete([new, "missing"], S)
        assert codes(deleted) == {new: "", "missing": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_settings_and_what_sets_them(admins: tuple[Admin, Admin], topic_name: str) -> None:
    create(admins, topic_name, max_message_bytes="2000000")
    brokers = list(map(str, admins[0].listing(S).brokers))

    def settings() -> Mapping[str, TopicSetting]:
        own = admins[0].settings("TOPIC", [topic_name], S)[topic_name]
        assert not isinstance(own, ClientFailure)
        return own

    for admin in admins:
        changes = {topic_name: {"retention.bytes": "77", "max.message.bytes": None}}
        assert admin.alter(changes, S) == {topic_name: None}
        wait_until(lambda: settings()["retention.bytes"] == TopicSetting("77", "topic"), S)
        read = same(admins, lambda admin: admin.settings("TOPIC", [topic_name], S)[topic_name])
        assert not isinstance(read, ClientFailure)
        assert read["retention.bytes"] == TopicSetting("77", "topic")
        assert read["max.message.bytes"].origin != "topic"
        assert read["retention.ms"] == TopicSetting("-1", "server.properties")
        assert codes(admin.alter({topic_name: {"cleanup.policy": "nonsense"}}, S)) == {
            topic_name: "INVALID_CONFIG"
        }
        assert admin.alter({topic_name: {"retention.bytes": None}}, S) == {topic_name: None}
        changed = {topic_name: {"max.message.bytes": "2000000"}}
        assert admin.alter(changed, S) == {topic_name: None}
        wait_until(lambda: settings()["retention.bytes"].origin != "topic", S)
    found = same(admins, lambda admin: admin.settings("BROKER", brokers, S))
    assert all(not isinstance(own, ClientFailure) and own["log.dirs"] for own in found.values())


def test_offsets_by_time_and_isolation(
    admins: tuple[Admin, Admin], broker: Broker, topic_name: str
) -> None:
    tp, empty = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    absent = TopicPartition(topic_name, 2)
    create(admins, topic_name, 2)
    plain = Producer(properties(broker))
    for time_ms in (1_000, 3_000, 2_000):
        plain.produce(topic_name, b"v", partition=0, timestamp=time_ms)
    plain.flush(S)
    producer = Producer({**properties(broker), TRANSACTIONS: topic_name})
    producer.init_transactions(S)
    producer.begin_transaction()
    producer.produce(topic_name, b"open", partition=0, timestamp=2_500)
    producer.flush(S)

    def offsets(time: int, *, committed: bool = False) -> dict[TopicPartition, object]:
        isolation = "read_committed" if committed else "read_uncommitted"
        asked = dict.fromkeys([tp, empty], time)
        return same(admins, lambda admin: dict(admin.offsets(asked, isolation, S)))  # type: ignore[arg-type]

    none = LogOffset(-1)
    assert offsets(EARLIEST) == {tp: LogOffset(0), empty: LogOffset(0)}
    assert offsets(LATEST) == {tp: LogOffset(4), empty: LogOffset(0)}
    assert offsets(LATEST, committed=True) == {tp: LogOffset(3), empty: LogOffset(0)}
    assert offsets(2_000) == {tp: LogOffset(1, 3_000), empty: none}
    assert offsets(9_000) == {tp: none, empty: none}
    assert offsets(NEWEST) == {tp: LogOffset(1, 3_000), empty: none}
    assert same(admins, lambda admin: admin.ends([tp, empty], "read_committed", S)) == {
        tp: 3,
        empty: 0,
    }
    for admin in admins:
        failure = admin.offsets({absent: LATEST}, "read_uncommitted", S)[absent]
        assert isinstance(failure, ClientFailure)
        assert failure.code == "UNKNOWN_TOPIC_OR_PARTITION"
    producer.abort_transaction(S)


def test_members_of_groups(admins: tuple[Admin, Admin], broker: Broker, topic_name: str) -> None:
    create(admins, topic_name)
    own = {"group.id": topic_name, "group.instance.id": "static-1"}
    consumer = Consumer({**properties(broker), **own})
    consumer.subscribe([topic_name])
    while not consumer.assignment():
        consumer.poll(0.1)

    assert same(admins, lambda admin: admin.members([topic_name], S)) == {
        topic_name: frozenset({"static-1"})
    }
    consumer.close()


def read_all(records: Records, tp: TopicPartition) -> list[KafkaRecord]:
    """The records of *tp*, from its start to its end."""
    found = list[KafkaRecord]()
    records.assign({tp: 0})
    while True:
        polled = records.poll(S)
        assert polled is not None
        assert polled[0] == tp
        if polled[1] is None:
            records.drop(tp)
            return found
        found.append(polled[1])


@pytest.mark.usefixtures("each_client")
def test_records_are_sent_and_read(
    admins: tuple[Admin, Admin], broker: Broker, topic_name: str
) -> None:
    create(admins, topic_name, max_message_bytes="20000", message_timestamp_type="LogAppendTime")
    tp, fates = TopicPartition(topic_name, 0), list[ClientFailure | None]()
    stamps = list[int]()

    def done(failure: ClientFailure | None, stamped_ms: int) -> None:
        fates.append(failure)
        stamps.append(stamped_ms)

    sender = open_sender({**properties(broker), "compression.type": "none"}, S)
    sender.connect(topic_name)
    sender.send(tp, b"k", b"v", done)
    sender.flush(S)
    sender.send(tp, b"k", b"x" * 50_000, done)
    sender.flush(S)
    assert fates[0] is None
    assert fates[1] is not None
    assert fates[1].code == "MESSAGE_TOO_LARGE"

    records = open_records(properties(broker), "read_committed")
    found = read_all(records, tp)
    assert [(one.offset, one.key, one.value, one.headers) for one in found] == [(0, b"k", b"v", ())]
    assert found[0].is_append_time
    # Java's client cannot tell a stamp that is the time of the sending
    assert stamps[0] in (found[0].timestamp_ms, -1)
    assert stamps[1] == -1
    assert records.bounds(tp, S) == (0, 1)
    with pytest.raises(ClientError) as caught:
        records.bounds(TopicPartition(topic_name, 7), S)
    assert caught.value.failure.code in {"UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"}
    records.close()


def test_what_an_acl_denies(admins: tuple[Admin, Admin], broker: Broker, topic_name: str) -> None:
    create(admins, topic_name)
    tp = TopicPartition(topic_name, 0)
    of_others = TopicAcl(topic_name, "LITERAL", "User:other", "*", "ALL", "ALLOW")
    with TopicAcls(shared_jvm(), "A", properties(broker)) as acls:
        assert acls.create([of_others]) == {}
        wait_until(lambda: of_others in acls.read(), S)  # it hears of it from the controller

    denied = {topic_name: "TOPIC_AUTHORIZATION_FAILED"}
    for admin in admins:
        assert codes(admin.topics([topic_name], S)) == denied
        assert codes(admin.rights([topic_name], S)) == denied
        assert codes(admin.settings("TOPIC", [topic_name], S)) == denied
    with Cluster("A", properties(broker)) as cluster, pytest.raises(CallError) as caught:
        cluster.log_ends([tp])  # of its partitions, librdkafka itself says that they are unknown
    assert caught.value.is_denied


@pytest.mark.parametrize("prefers_java", [False, True])
def test_a_cluster_that_cannot_be_reached_has_no_answer(*, prefers_java: bool) -> None:
    nowhere = {"bootstrap.servers": f"{HOST}:{free_port()}"}
    admin = open_admin(nowhere, "contract", 1.0, prefers_java=prefers_java)
    with pytest.raises(ClientError) as caught:
        admin.listing(1.0)

    assert caught.value.failure.code in UNREACHABLE
    failure = admin.topics(["t"], 1.0)["t"]
    assert isinstance(failure, ClientFailure)
    assert failure.code in UNREACHABLE
    admin.close()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(broker: Broker, each_client: str, codec: str) -> None:
    name = f"compressed-{codec}-{each_client}"
    create_topic(broker.bootstrap, name, 1)
    producer = Producer({**properties(broker), "compression.type": codec, "linger.ms": 1000})
    for _ in range(50):
        producer.produce(name, b"x" * 1000, partition=0)
    assert producer.flush(20) == 0
    found = list[bytes | None]()
    with Reader(properties(broker), "read_committed") as reader:
        reader.visit({TopicPartition(name, 0): (0, 50)}, lambda _, one: found.append(one.value))

    assert found == [b"x" * 1000] * 50


EXPANDED, EXPANDED_COUNT = 990_000, 110


def send_expanding(broker: Broker, name: str) -> None:
    """Sends 109 MB to a new topic, as one small batch."""
    create_topic(broker.bootstrap, name, 1)
    own = {"compression.type": "zstd", "linger.ms": 60_000, "batch.size": 2_000_000_000}
    room = {"message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 2_000_000}
    producer = Producer({**properties(broker), **own, **room})
    for _ in range(EXPANDED_COUNT):
        producer.produce(name, b"x" * EXPANDED, partition=0)
    assert producer.flush(60) == 0


def test_a_batch_that_expands_to_more_than_100_mb_is_read(broker: Broker, each_client: str) -> None:
    """By default, librdkafka expands no more than it receives: 100 MB."""
    name = f"expands-{each_client}"
    send_expanding(broker, name)
    found = list[int]()
    with Reader(properties(broker), "read_committed") as reader:
        reader.visit(
            {TopicPartition(name, 0): (0, EXPANDED_COUNT)},
            lambda _, one: found.append(len(one.value or b"")),
        )

    assert found == [EXPANDED] * EXPANDED_COUNT


def test_java_reads_large_records_with_little_memory_and_loses_no_answer(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_expanding(broker, topic_name)
    tp = TopicPartition(topic_name, 0)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx300m")
    with open_jvm(kafka_jars()) as jvm:
        records = JavaRecords(jvm, properties(broker), "read_committed")
        found = read_all(records, tp)
        assert [len(one.value or b"") for one in found] == [EXPANDED] * EXPANDED_COUNT

        records.assign({tp: 0})
        assert records.poll(S)
        # as py4j does where Java had no memory for the text of the answer
        with pytest.raises(Py4JJavaError, match="an answer with records was lost"):
            records._java.poll(1, 0)  # noqa: SLF001 - only py4j repeats a call
        records.close()


def test_a_partition_that_cannot_be_read_is_named_and_all_others_are_read_once(
    broker: Broker, each_client: str
) -> None:
    names = [f"{name}-{each_client}" for name in ("first", "damaged", "last")]
    for name in names:
        create_topic(broker.bootstrap, name, 1)
        for batch in range(3):
            producer = Producer(properties(broker))
            for n in range(500):
                producer.produce(name, b"%d" % (500 * batch + n), partition=0)
            assert producer.flush(20) == 0
    damage_log(broker, names[1], log_bytes(broker, names[1]) // 2)
    found: dict[str, list[int]] = {name: [] for name in names}
    spans = {TopicPartition(name, 0): (0, 1500) for name in names}
    with (
        Reader(properties(broker), "read_committed") as reader,
        pytest.raises(CallError, match=f"reading {names[1]}-0") as caught,
    ):
        reader.visit(spans, lambda tp, one: found[tp.topic].append(one.offset))

    assert caught.value.rejected.keys() == {names[1]}
    assert found[names[0]] == found[names[2]] == list(range(1500))
    until_damage = found[names[1]]  # a slow producer makes more batches than three
    assert until_damage == list(range(len(until_damage)))
    assert len(until_damage) < 1500
