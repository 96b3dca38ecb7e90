"""A record that cannot be copied is named, its topic is set aside, and the others go on."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.compare import compare
from replication.demo.topic_log import TopicLog
from replication.demo.workload import ProducedRecord, create_topic, sending
from replication.errors import FlowError
from replication.model import PROVENANCE, Flow, Mode, Position, TopicPartition
from replication.positions.expire import rejected_records
from replication.state.tables import Tables
from replication.topics.topic_plan import TopicPlan
from tests.support.cut_log import damage_log, log_bytes
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.proxy import NextIsSent, proxied_broker
from tests.support.settings import IDENTITY
from tests.support.stored import stored
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_equal, copied, fill, now_ms, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LIMIT = "max.message.bytes"
AFTER = "message.timestamp.after.max.ms"
BEFORE = "message.timestamp.before.max.ms"
FOREVER = str(2**63 - 1)
DAY_MS = 86_400_000


def keyed(*, age_ms: int = 0) -> ProducedRecord:
    return ProducedRecord(partition=0, key=b"k", value=b"x", timestamp_ms=now_ms() - age_ms)


class Rejected(NamedTuple):
    """A record that the target rejects by one value of a setting, and takes by another one."""

    record: ProducedRecord
    key: str
    strict: str
    mild: str
    reason: str


FROM_THE_FUTURE = Rejected(keyed(age_ms=-2 * DAY_MS), AFTER, "3600000", FOREVER, "Timestamp")
TOO_OLD = Rejected(keyed(age_ms=2 * DAY_MS), BEFORE, str(DAY_MS), FOREVER, "Timestamp")
WITHOUT_KEY = Rejected(
    ProducedRecord(partition=0, key=None, value=b"x"),
    "cleanup.policy", "compact", "delete", "without key",
)  # fmt: skip


def small(count: int) -> Iterator[ProducedRecord]:
    return (ProducedRecord(partition=0, key=None, value=b"%d" % n) for n in range(count))


def numbered_records(start: int, end: int) -> list[ProducedRecord]:
    at = now_ms()
    return [
        ProducedRecord(partition=0, key=b"%d" % n, value=b"%d" % n, timestamp_ms=at)
        for n in range(start, end)
    ]


@pytest.fixture
def large(clusters: Clusters, topic_name: str) -> str:
    """A topic whose remote topic takes smaller records, beside one that is filled."""
    source, target = clusters
    name = f"{topic_name}-large"
    fill(source, topic_name, 1, 100)
    create_topic(source.bootstrap, name, 1, {LIMIT: "8000000"})
    create_topic(target.bootstrap, f"A.{name}", 1, {LIMIT: "1000000"})
    return name


LARGE = ProducedRecord(partition=0, key=None, value=b"x" * 3_000_000)


def test_a_topic_with_a_record_that_is_too_large_joins_once_the_limit_is_raised(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, large: str
) -> None:
    source, target = clusters
    send_records(source, large, [*small(5), LARGE, *small(5)])
    config = flow_config(source, target, f"{topic_name}.*")
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: ("set-aside", large) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) >= 200)

    alter_topic(target, f"A.{large}", LIMIT, "8000000")
    flow.until(lambda: ("rejoined", large) in kinds_of_topics(flow.tables))
    flow.until(lambda: copied(clusters, large) >= 11)
    flow.stop()

    assert_equal(clusters, topic_name)
    event = stored(flow.tables, "events", "kind = 'set-aside'")[0]
    for fact in (f"{large}-0 offset 5", "8000000", "1000000", LIMIT):
        assert fact in event.text


def test_a_rejected_record_that_nothing_follows_is_noticed_before_its_batch_ends(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, large: str
) -> None:
    """A Real-Time batch lasts for ten minutes."""
    source, target = clusters
    send_records(source, large, small(5))
    lasting = {"replication.realtime.batch.seconds": "600"}
    config = flow_config(source, target, f"{topic_name}.*", lasting)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, large) == 5)
    send_records(source, large, [LARGE])
    flow.until(lambda: ("set-aside", large) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) == 200)
    flow.stop()

    assert_equal(clusters, topic_name)
    (event,) = stored(flow.tables, "events", "kind = 'set-aside'")
    assert f"{large}-0 offset 5" in event.text


@pytest.mark.parametrize(
    ("mode", "case"),
    [("realtime", FROM_THE_FUTURE), ("microbatch", TOO_OLD), ("microbatch", WITHOUT_KEY)],
    ids=["from the future", "too old", "without a key"],
)
def test_a_topic_with_a_record_that_the_target_rejects_joins_once_the_target_takes_it(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    case: Rejected,
) -> None:
    source, target = clusters
    odd = f"{topic_name}-odd"
    fill(source, topic_name, 1, 100)
    create_topic(source.bootstrap, odd, 1, {AFTER: FOREVER, "retention.ms": "-1"})
    create_topic(target.bootstrap, f"A.{odd}", 1, {"retention.ms": "-1", case.key: case.strict})
    send_records(source, odd, [*[keyed()] * 5, case.record, *[keyed()] * 5])
    flow = RunningFlow(spark, tmp_path, flow_config(source, target, f"{topic_name}.*"), mode)
    flow.until(lambda: ("set-aside", odd) in kinds_of_topics(flow.tables))
    # where a busy machine has sent the last ones in a batch of their own, the target took them
    behind = copied(clusters, odd) - 5
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) >= 200)

    alter_topic(target, f"A.{odd}", case.key, case.mild)
    flow.until(lambda: ("rejoined", odd) in kinds_of_topics(flow.tables))
    flow.until(lambda: copied(clusters, odd) >= 11 + behind)
    flow.stop()

    assert_equal(clusters, topic_name)
    (report,) = compare(source.bootstrap, target.bootstrap, {odd: f"A.{odd}"}).values()
    assert report.is_equal == (behind == 0)
    assert (("realigned", odd) in kinds_of_topics(flow.tables)) == (behind > 0)
    assert (report.missing, report.extra, copied(clusters, odd)) == (0, 0, 11 + behind)
    event = stored(flow.tables, "events", "kind = 'set-aside'")[0]
    for fact in (f"B rejects a record of {odd}-0", case.reason, f"change the settings of A.{odd}"):
        assert fact in event.text


TOO_LARGE = Rejected(
    ProducedRecord(partition=0, key=b"k", value=b"x" * 200_000),
    LIMIT, "100000", "1000000", "too large",
)  # fmt: skip


@pytest.mark.parametrize(
    "case", [TOO_LARGE, FROM_THE_FUTURE, WITHOUT_KEY], ids=["size", "time", "key"]
)
@pytest.mark.guarantee
def test_no_start_repeats_what_is_behind_a_rejected_record(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, case: Rejected
) -> None:
    source, target = clusters
    odd = f"{topic_name}-odd"
    fill(source, topic_name, 1, 10)
    create_topic(source.bootstrap, odd, 1, {AFTER: FOREVER})
    create_topic(target.bootstrap, f"A.{odd}", 1, {case.key: case.strict})
    before, behind = numbered_records(0, 5), numbered_records(5, 205)
    send_records(source, odd, [*before, case.record, *behind])
    send_records(
        target, f"A.{odd}", [*before, *behind]
    )  # as a flow leaves it that has lost its map
    config = flow_config(source, target, f"{topic_name}.*")

    for _ in range(3):
        flow = RunningFlow(spark, tmp_path, config, "drain")
        with pytest.raises(FlowError, match=f"{odd}-0"):
            flow.join()
        assert copied(clusters, odd) == 205
    alter_topic(target, f"A.{odd}", case.key, case.mild)
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert copied(clusters, odd) == 205 + 1 + 200
    (report,) = compare(source.bootstrap, target.bootstrap, {odd: f"A.{odd}"}).values()
    assert (report.missing, report.extra) == (0, 0)


def padded_records(count: int) -> list[ProducedRecord]:
    return [replace(one, value=b"%300d" % n) for n, one in enumerate(numbered_records(0, count))]


BATCHES = 4_000  # records of 300 bytes: more than a few batches of the producer
REJECTED = b"the value of the rejected record"


@pytest.mark.parametrize("case", [FROM_THE_FUTURE, WITHOUT_KEY], ids=["time", "key"])
@pytest.mark.guarantee
def test_a_record_in_mid_batch_is_named_and_no_start_repeats_what_is_behind(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    case: Rejected,
) -> None:
    """The target takes none of its batch, so those before it are copied by themselves."""
    source = clusters[0]
    odd = f"{topic_name}-odd"
    fill(source, topic_name, 1, 10)
    create_topic(source.bootstrap, odd, 1, {AFTER: FOREVER})
    padded = padded_records(BATCHES)
    rejected = replace(case.record, value=REJECTED)
    send_records(source, odd, [*padded[:5], rejected, *padded[5:]])
    # how far a producer is when a rejection comes back would else be decided by the machine
    another_batch = NextIsSent(first=REJECTED, following=b" " * 200)
    with proxied_broker("B", tmp_path / "B", broker_settings, another_batch) as (target, proxy):
        create_topic(target.bootstrap, f"A.{odd}", 1, {case.key: case.strict})
        config = flow_config(
            source, target, f"{topic_name}.*", {f"{FLOW.target}.bootstrap.servers": proxy.bootstrap}
        )
        ends = []
        for _ in range(3):
            with pytest.raises(FlowError, match=f"rejects a record of {odd}-0, offset 5: "):
                RunningFlow(spark, tmp_path / "state", config, "drain").join()
            ends.append(copied((source, target), odd))
        alter_topic(target, f"A.{odd}", case.key, case.mild)
        RunningFlow(spark, tmp_path / "state", config, "drain").join()

        assert another_batch.was_sent
        assert ends == [ends[0]] * 3
        assert ends[0] > 5, "records behind the rejected one are there"
        (report,) = compare(source.bootstrap, target.bootstrap, {odd: f"A.{odd}"}).values()
        assert (report.missing, report.extra) == (0, 0)
        assert copied((source, target), odd) == ends[0] + 1 + BATCHES - 5


@pytest.mark.parametrize("source_has", ["no gaps", "gaps", "records of the target"])
@pytest.mark.guarantee
def test_no_start_repeats_what_is_behind_a_rejected_record_of_a_shared_topic(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
    source_has: str,
) -> None:
    """Nobody counts a flow's records there, so the offset map alone says what was copied."""
    source, target = clusters
    both = f"{topic_name}-both"
    settings = {
        "replication.policy.class": IDENTITY,
        "replication.aggregate.topics": both,
        "replication.provenance.header.enabled": "true",
    }
    fill(source, topic_name, 1, 10)
    fill(own_broker, both, 1, 30)
    create_topic(source.bootstrap, both, 1, {AFTER: FOREVER})
    create_topic(target.bootstrap, both, 1, {AFTER: FROM_THE_FUTURE.strict})
    padded = padded_records(BATCHES)
    send_records(source, both, padded[:5])
    if source_has == "gaps":
        with sending(source.bootstrap, transactional_id=both) as sender:
            for is_aborted in (True, False):
                with sender.transaction(abort=is_aborted):
                    sender.send_all(both, padded[5:6])
    elif source_has == "records of the target":
        passed = replace(keyed(), headers=((PROVENANCE, b"B"),))
        send_records(source, both, [passed] * 5)
    send_records(source, both, [FROM_THE_FUTURE.record, *padded[6:]])
    a_to_b = flow_config(source, target, f"{topic_name}.*", settings)
    c_to_b = flow_config(own_broker, target, both, settings, Flow("C", "B"))

    found = []
    for _ in range(3):
        with pytest.raises(FlowError, match=f"rejects a record of {both}-0, offset"):
            RunningFlow(spark, tmp_path / "a", a_to_b, "drain").join()
        RunningFlow(spark, tmp_path / "c", c_to_b, "drain").join()
        send(own_broker, both, 1, 10)  # so that the log grows between two starts
        found.append(copies_from(target, both, b"A"))
    alter_topic(target, both, AFTER, FOREVER)
    RunningFlow(spark, tmp_path / "a", a_to_b, "drain").join()
    RunningFlow(spark, tmp_path / "c", c_to_b, "drain").join()

    assert found == [found[0]] * 3
    assert set(found[0].values()) == {1}
    assert found[0].keys() >= {one.value for one in padded[:5]}, "what stood before it is there"
    there = copies_from(target, both, b"A")
    behind = set(found[0]) - {one.value for one in padded[:6]}
    assert there == Counter(there.keys()) + Counter(behind)
    assert there.keys() == {FROM_THE_FUTURE.record.value} | {
        one.value for at, one in enumerate(padded) if at != 5 or source_has == "gaps"
    }
    assert copies_from(target, both, b"C").total() == 30 + 3 * 10


def copies_from(broker: Broker, topic: str, alias: bytes) -> Counter[bytes | None]:
    """How often each value that came from the cluster *alias* is in the topic."""
    log = TopicLog(broker.bootstrap, topic, "read_uncommitted")
    return Counter(
        one.content.value
        for one in log.records(0)
        if one.content.headers[-1:] == ((PROVENANCE, alias),)
    )


def test_a_record_whose_time_spark_cannot_read_is_named_and_the_others_are_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    far, early = f"{topic_name}-far", f"{topic_name}-early"
    fill(source, topic_name, 1, 100)
    for topic, odd in ((far, 9_300_000_000_000_000), (early, -9_300_000_000_000_000)):
        create_topic(source.bootstrap, topic, 1, {AFTER: FOREVER})
        times = [now_ms(), now_ms(), odd, now_ms()]
        records = (ProducedRecord(partition=0, key=None, value=b"x", timestamp_ms=t) for t in times)
        send_records(source, topic, records)
    flow = RunningFlow(spark, tmp_path, flow_config(source, target, f"{topic_name}.*"), "drain")

    with pytest.raises(FlowError) as ended:
        flow.join()
    assert f"{far}-0 offset 2 has timestamp 9300000000000000 ms" in str(ended.value)
    assert f"{early}-0 offset 2 has timestamp -9300000000000000 ms" in str(ended.value)

    assert_equal(clusters, topic_name)
    assert copied(clusters, far) == copied(clusters, early) == 2
    assert sorted(kinds_of_topics(flow.tables)) == [("set-aside", early), ("set-aside", far)]


def test_a_topic_with_a_damaged_batch_is_set_aside_and_the_others_are_copied(
    spark: SparkSession, clusters: Clusters, own_process: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = own_process, clusters[1]
    damaged = f"{topic_name}-damaged"
    fill(source, topic_name, 1, 100)
    fill(source, damaged, 1, 10)
    whole = log_bytes(source, damaged)
    send(source, damaged, 1, 10)
    damage_log(source, damaged, (whole + log_bytes(source, damaged)) // 2)
    config = flow_config(source, target, f"{topic_name}.*")
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: ("set-aside", damaged) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied((source, target), topic_name) >= 200)
    flow.stop()

    assert_equal((source, target), topic_name)
    assert copied((source, target), damaged) == 10
    event = stored(flow.tables, "events", "kind = 'set-aside'")[0]
    for fact in (f"A has a record of {damaged}-0 that cannot be read", "offset 10", "corrupt"):
        assert fact in event.text


def test_a_remote_topic_that_cannot_be_read_without_an_offset_map_holds_up_no_other(
    spark: SparkSession, clusters: Clusters, own_process: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters[0], own_process
    damaged = f"{topic_name}-damaged"
    config = flow_config(source, target, f"{topic_name}.*")
    for name in (topic_name, damaged):
        fill(source, name, 1, 100)
    flow = RunningFlow(spark, tmp_path / "before", config, "microbatch")
    flow.until(lambda: all(copied((source, target), name) >= 100 for name in (topic_name, damaged)))
    flow.stop()
    damage_log(target, f"A.{damaged}", log_bytes(target, f"A.{damaged}") - 20)
    flow = RunningFlow(spark, tmp_path / "lost", config, "microbatch")
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied((source, target), topic_name) >= 200)
    flow.stop()

    assert ("set-aside", damaged) in kinds_of_topics(flow.tables)
    event = stored(flow.tables, "events", "kind = 'set-aside'")[0]
    assert f"reading A.{damaged}-0" in event.text
    assert_equal((source, target), topic_name)


def test_a_remote_topic_that_is_deleted_meanwhile_is_left_out(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 10)
    create_topic(target.bootstrap, f"A.{topic_name}", 1)
    gone = f"{topic_name}-gone"
    fill(source, gone, 1, 10)
    there, missing = TopicPartition(topic_name, 0), TopicPartition(gone, 0)
    plan = TopicPlan(
        topics={topic_name: f"A.{topic_name}", gone: f"A.{gone}"},
        create=(),
        grow={},
        partitions=(there, missing),
        source_ids={},
    )
    context = flow_context(
        spark, Tables(spark, tmp_path.as_uri()), flow_config(source, target, f"{topic_name}.*")
    )

    assert rejected_records(context, plan, {there: Position(0, 0), missing: Position(0, 0)}) == {}
