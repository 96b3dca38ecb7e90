"""A record that cannot be copied becomes one dead letter, and its topic goes on behind it."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import FlowError
from replication.model import TopicPartition
from replication.offsets.dead_letter import IDENTITY, DeadLetterId
from replication.offsets.map import Exact, OffsetMap
from replication.state.requests import request_letters
from tests.support.cut_log import damage_log, log_bytes
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.letters import (
    HEADERS,
    LIMIT,
    contents,
    keys,
    letter_settings,
    numbered,
    too_large,
)
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored, stored_runs
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_equal, copied, fill, now_ms, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

AFTER = "message.timestamp.after.max.ms"
FOREVER = str(2**63 - 1)
DAY_MS = 86_400_000


def drain(spark: SparkSession, state: Path, config: FlowConfig) -> RunningFlow:
    flow = RunningFlow(spark, state, config, "drain")
    flow.join()
    return flow


def config_of(clusters: Clusters, topics: str, kind: str, **others: str) -> FlowConfig:
    return flow_config(*clusters, f"{topics}.*", letter_settings(topics, kind, **others))


def put_back(saved: Path, state: Path, *tables: str) -> None:
    """Gives tables the content that they had: as after a kill before they were written."""
    for table in tables:
        shutil.rmtree(state / table)
        if (saved / table).exists():
            shutil.copytree(saved / table, state / table)


@pytest.mark.guarantee
def test_there_is_one_letter_and_one_copy_wherever_the_process_is_killed(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Killed with the letter written, with its row written, and with its copy written."""
    source, target = clusters
    odd, dead = f"{topic_name}-odd", f"dead-{topic_name}"
    state, saved = tmp_path / "state", tmp_path / "saved"
    create_topic(source.bootstrap, odd, 1)
    create_topic(target.bootstrap, f"A.{odd}", 1, {LIMIT: "100000"})
    config = config_of(clusters, topic_name, "topic")
    send_records(source, odd, numbered(0, 1, 2, 3, 4))
    drain(spark, state, config)
    shutil.copytree(state, saved)
    large = too_large()
    send_records(source, odd, [large])

    drain(spark, state, config)
    put_back(saved, state, "offset_runs")  # the letter has its row
    drain(spark, state, config)
    put_back(saved, state, "offset_runs", "dead_letters")  # it lies in the topic only
    flow = drain(spark, state, config)
    send_records(source, odd, numbered(6, 7))
    drain(spark, state, config)

    (letter,) = contents(target, dead)
    (row,) = stored(flow.tables, "dead_letters")
    assert keys(target, f"A.{odd}") == [b"0", b"1", b"2", b"3", b"4", b"6", b"7"]
    assert (letter.key, letter.value, letter.headers[:3]) == (large.key, large.value, HEADERS)
    said = dict(letter.headers[3:])
    assert said["__connect.errors.offset"] == b"5"
    assert said["__connect.errors.exception.class.name"] == b"RecordTooLargeException"
    assert json.loads(said[IDENTITY] or b"")["timestamp_ms"] == large.timestamp_ms
    assert (row.source_offset, row.state, row.place) == (5, "waiting", f"{dead} 0 0")
    assert ("dead-letter", odd) in kinds_of_topics(flow.tables)
    assert ("set-aside", odd) not in kinds_of_topics(flow.tables)

    # copied again, and killed before the map and the row say so
    one = DeadLetterId(odd, row.topic_id, 0, 5)
    shutil.rmtree(saved)
    shutil.copytree(state, saved)
    alter_topic(target, f"A.{odd}", LIMIT, "1000000")
    for _ in range(2):
        request_letters(StateAccess(state.as_uri()), FLOW, [one])
        drain(spark, state, config)
        put_back(saved, state, "offset_runs", "dead_letters")
    request_letters(StateAccess(state.as_uri()), FLOW, [one])
    send_records(source, odd, numbered(8))
    drain(spark, state, config)

    assert keys(target, f"A.{odd}") == [*(b"%d" % n for n in (0, 1, 2, 3, 4, 6, 7)), b"large", b"8"]
    copy = contents(target, f"A.{odd}")[7]
    assert (copy.value, copy.headers[:3], copy.timestamp_ms) == (
        large.value,
        HEADERS,
        large.timestamp_ms,
    )
    assert [name for name, _ in copy.headers[3:]] == [IDENTITY]
    assert [row.state for row in stored(flow.tables, "dead_letters")] == ["waiting", "copied"]
    assert "realigned" not in {kind for kind, _ in kinds_of_topics(flow.tables)}
    offset_map = OffsetMap(stored_runs(state, FLOW, TopicPartition(odd, 0)))
    assert [offset_map.translate(n) for n in (4, 6, 7, 9)] == list(map(Exact, (4, 5, 6, 9)))


@pytest.mark.guarantee
def test_letters_in_a_table_have_the_record_and_a_target_that_takes_nothing_is_no_letter(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    odd = f"{topic_name}-odd"
    fill(source, topic_name, 1, 20)
    create_topic(source.bootstrap, odd, 1)
    create_topic(target.bootstrap, f"A.{odd}", 1, {LIMIT: "100000"})
    send_records(source, odd, [*numbered(0, 1), *(too_large(b"large %d" % n) for n in range(5))])
    config = config_of(clusters, topic_name, "table", replication_dead_letters_max="2")

    flow = RunningFlow(spark, tmp_path, config, "drain")
    with pytest.raises(FlowError, match=f"{odd}-0"):
        flow.join()

    assert_equal(clusters, topic_name)
    assert keys(target, f"A.{odd}") == [b"0", b"1"]
    rows = stored(flow.tables, "dead_letters", order="source_offset")
    assert [(row.source_offset, row.key, row.place) for row in rows] == [
        (2, b"large 0", "table"),
        (3, b"large 1", "table"),
    ]
    assert rows[0].value == b"x" * 200_000


@pytest.mark.guarantee
def test_a_damaged_batch_is_one_letter_and_what_is_around_it_is_copied(
    spark: SparkSession,
    own_process: Broker,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
) -> None:
    source, target = own_process, clusters[1]
    damaged = f"{topic_name}-damaged"
    create_topic(source.bootstrap, damaged, 1)
    send_records(source, damaged, numbered(*range(10)))
    whole = log_bytes(source, damaged)
    send_records(source, damaged, numbered(*range(10, 20)))
    end = log_bytes(source, damaged)
    send_records(source, damaged, numbered(*range(20, 30)))
    damage_log(source, damaged, (whole + end) // 2)

    flow = drain(spark, tmp_path, config_of((source, target), topic_name, "table"))

    (row,) = stored(flow.tables, "dead_letters")
    found = [int(key or b"") for key in keys(target, f"A.{damaged}")]
    assert found == [*range(row.source_offset), *range(20, 30)]
    assert (row.is_read, row.stage) == (False, "KAFKA_CONSUME")
    assert f"offsets {row.source_offset} to 19" in row.reason


@pytest.mark.guarantee
def test_a_running_flow_goes_on_and_copies_a_letter_again_when_it_is_asked(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    odd = f"{topic_name}-odd"
    fill(source, topic_name, 1, 100)
    create_topic(source.bootstrap, odd, 1, {AFTER: FOREVER})
    create_topic(target.bootstrap, f"A.{odd}", 1, {AFTER: "3600000"})
    early = ProducedRecord(
        partition=0, key=b"early", value=b"x", timestamp_ms=now_ms() + 2 * DAY_MS
    )
    send_records(source, odd, [*numbered(0, 1, 2), early, *numbered(4, 5, 6)])
    flow = RunningFlow(spark, tmp_path, config_of(clusters, topic_name, "topic"), "microbatch")
    flow.until(lambda: ("dead-letter", odd) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) >= 200)
    flow.until(lambda: b"6" in keys(target, f"A.{odd}"))

    alter_topic(target, f"A.{odd}", AFTER, FOREVER)
    (row,) = stored(flow.tables, "dead_letters")
    request_letters(
        StateAccess(tmp_path.as_uri()),
        FLOW,
        [DeadLetterId(odd, row.topic_id, 0, row.source_offset)],
    )
    flow.until(lambda: ("dead-letter-copied", odd) in kinds_of_topics(flow.tables))
    send_records(source, odd, numbered(7))
    flow.until(lambda: b"7" in keys(target, f"A.{odd}"))
    flow.stop()

    assert_equal(clusters, topic_name)
    found = keys(target, f"A.{odd}")
    assert set(found) == {b"early", *(b"%d" % n for n in (0, 1, 2, 4, 5, 6, 7))}
    assert found.count(b"early") == 1
    assert found[-1] == b"7"
    assert ("set-aside", odd) not in kinds_of_topics(flow.tables)


@pytest.mark.guarantee
def test_a_record_that_a_transform_fails_on_is_a_letter_until_the_transform_is_mended(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    for broker, topic in ((source, topic_name), (target, f"A.{topic_name}")):
        create_topic(broker.bootstrap, topic, 1, {AFTER: FOREVER})
    # its producer takes microseconds for milliseconds
    unknown = ProducedRecord(
        partition=0, key=b"x", value=b"no number", timestamp_ms=now_ms() * 1000
    )
    send_records(source, topic_name, [*numbered(0, 1, 2), unknown, *numbered(4)])
    chain = {
        "replication_transforms": "positive",
        "replication_transforms_positive_topics": topic_name,
        "replication_transforms_positive_filter": "cast(cast(value as string) as int) > 0",
    }
    flow = drain(spark, tmp_path, config_of(clusters, topic_name, "table", **chain))
    (row,) = stored(flow.tables, "dead_letters")
    before = keys(target, f"A.{topic_name}")

    one = DeadLetterId(topic_name, row.topic_id, 0, 3)
    request_letters(StateAccess(tmp_path.as_uri()), FLOW, [one])
    drain(spark, tmp_path, config_of(clusters, topic_name, "table", **chain))
    still = keys(target, f"A.{topic_name}")
    request_letters(StateAccess(tmp_path.as_uri()), FLOW, [one])
    mended = {**chain, "replication_transforms_positive_unknown": "keep"}
    drain(spark, tmp_path, config_of(clusters, topic_name, "table", **mended))

    assert (row.source_offset, row.stage, row.value) == (3, "TRANSFORMATION", b"no number")
    assert before == still == [b"1", b"2", b"4"]
    assert keys(target, f"A.{topic_name}") == [b"1", b"2", b"4", b"x"]
    assert contents(target, f"A.{topic_name}")[-1].timestamp_ms == unknown.timestamp_ms
