"""Dead letters under bad input: nothing is lost in silence, and no topic holds up the others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import FlowError
from replication.model import Flow
from replication.offsets.dead_letter import IDENTITY, DeadLetterId
from replication.state.requests import request_letters
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.letters import LIMIT, contents, keys, letter_settings, numbered, too_large
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_equal, copied, fill, now_ms, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

ANY_SIZE = {LIMIT: "10000000"}
EIGHT_MB = 8_000_000


def documents(*values: bytes) -> list[ProducedRecord]:
    return [
        ProducedRecord(partition=0, key=b"%d" % n, value=value, timestamp_ms=now_ms())
        for n, value in enumerate(values)
    ]


def identity(broker: Broker, topic: str) -> list[tuple[str, str, int]]:
    """Of which flow, topic and offset the letters in *topic* are."""
    found = [json.loads(one.headers[-1][1] or b"") for one in contents(broker, topic)]
    assert all(one.headers[-1][0] == IDENTITY for one in contents(broker, topic))
    return [(one["flow"], one["topic"], one["offset"]) for one in found]


@pytest.mark.guarantee
def test_what_nobody_can_copy_is_kept_and_a_topic_of_nothing_else_is_set_aside(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Broken JSON in the middle, 8 MB, and a filter that fails for each record of a topic."""
    source, target = clusters
    broken, every, large = (f"{topic_name}-{name}" for name in ("broken", "every", "large"))
    fill(source, topic_name, 1, 20)
    for topic in (broken, every, large):
        create_topic(source.bootstrap, topic, 1, ANY_SIZE)
    create_topic(target.bootstrap, f"A.{large}", 1, {LIMIT: "100000"})
    sound = [b'{"n":%d}' % n for n in range(10)]
    send_records(source, broken, documents(*sound[:5], b'{"n":', *sound[5:]))
    send_records(source, every, documents(*[b"<n/>"] * 8))
    send_records(source, large, [*numbered(0), too_large(size=EIGHT_MB)])
    settings = letter_settings(topic_name, "topic", replication_dead_letters_max="2")
    settings |= {
        "replication.transforms": "even",
        "replication.transforms.even.topics": f"{broken}, {every}",
        "replication.transforms.even.filter": (
            "cast(get_json_object(cast(value as string), '$.n') as int) % 2 = 0"
        ),
    }
    config = flow_config(*clusters, f"{topic_name}.*", settings)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    with pytest.raises(FlowError, match=f"{every}-0"):
        flow.join()

    assert_equal(clusters, topic_name)
    assert keys(target, f"A.{broken}") == [b"0", b"2", b"4", b"7", b"9"]
    assert copied(clusters, every) == 0
    assert keys(target, f"A.{large}") == [b"0"]
    letters = [(broken, 5), (every, 0), (every, 1), (large, 1)]
    assert sorted(identity(target, f"dead-{topic_name}")) == [("A->B", *one) for one in letters]
    kept = {one.key: one for one in contents(target, f"dead-{topic_name}")}
    assert len(kept[b"large"].value or b"") == EIGHT_MB
    assert [topic for kind, topic in kinds_of_topics(flow.tables) if kind == "set-aside"] == [every]


def test_letters_that_cannot_be_written_set_their_topic_aside_until_they_can(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    odd, dead = f"{topic_name}-odd", f"dead-{topic_name}"
    fill(source, topic_name, 1, 20)
    create_topic(source.bootstrap, odd, 1)
    create_topic(target.bootstrap, f"A.{odd}", 1, {LIMIT: "100000"})
    create_topic(target.bootstrap, dead, 1, {"cleanup.policy": "compact"})  # takes none without key
    send_records(source, odd, [*numbered(0), replace(too_large(), key=None)])
    settings = letter_settings(topic_name, "topic")
    flow = RunningFlow(
        spark, tmp_path, flow_config(*clusters, f"{topic_name}.*", settings), "microbatch"
    )
    flow.until(lambda: ("set-aside", odd) in kinds_of_topics(flow.tables), 120)
    send(source, topic_name, 1, 20)
    flow.until(lambda: copied(clusters, topic_name) == 40)
    event = stored(flow.tables, "events", "kind = 'set-aside'")[0]
    assert "no dead letter was kept: " in event.text
    assert stored(flow.tables, "dead_letters") == []

    alter_topic(target, dead, "cleanup.policy", "delete")
    flow.until(lambda: ("dead-letter", odd) in kinds_of_topics(flow.tables), 120)
    send_records(source, odd, numbered(2))
    flow.until(lambda: b"2" in keys(target, f"A.{odd}"))
    flow.stop()

    assert_equal(clusters, topic_name)
    assert keys(target, f"A.{odd}") == [b"0", b"2"]
    assert [row.source_offset for row in stored(flow.tables, "dead_letters")] == [1]
    assert identity(target, dead) == [("A->B", odd, 1)]


def test_two_flows_with_one_topic_of_letters_copy_each_their_own_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Their topics have the same name, and so their letters the same topic, partition, offset."""
    source, target = clusters
    flows = (FLOW, Flow("C", "B"))
    create_topic(source.bootstrap, topic_name, 1)
    for flow in flows:
        create_topic(target.bootstrap, f"{flow.source}.{topic_name}", 1, {LIMIT: "100000"})
    send_records(source, topic_name, [*numbered(0), too_large()])
    settings = letter_settings(topic_name, "topic")
    configs = [flow_config(*clusters, topic_name, settings, flow) for flow in flows]

    for config in configs:
        RunningFlow(spark, tmp_path, config, "drain").join()
    assert identity(target, f"dead-{topic_name}") == [(str(flow), topic_name, 1) for flow in flows]
    (row,) = stored(tmp_path, "dead_letters", "flow = 'C->B'")
    alter_topic(target, f"C.{topic_name}", LIMIT, "1000000")
    one = DeadLetterId(topic_name, row.topic_id, 0, 1)
    request_letters(StateAccess(tmp_path.as_uri()), flows[1], [one])
    for config in configs:
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert keys(target, f"C.{topic_name}") == [b"0", b"large"]
    assert keys(target, f"A.{topic_name}") == [b"0"]
    states = [(row.flow, row.state) for row in stored(tmp_path, "dead_letters")]
    assert states == [("A->B", "waiting"), ("C->B", "waiting"), ("C->B", "copied")]
