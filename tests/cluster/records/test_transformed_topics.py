"""Topics whose records are dropped and changed on their way: once, in order, and found again."""

import json
import re
import shutil
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import Content
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import FlowError, GuardError
from replication.model import TopicPartition
from replication.offsets.map import OffsetMap
from replication.state.tables import Tables, now
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import record_events, stored, stored_runs
from tests.support.topics import copied, fill, send_records
from tests.support.transformed import (
    SETTINGS,
    assert_transformed,
    masked_seventh,
    people,
    unsafe_answers,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PARTITIONS = 2
SENT_MS = 1_764_000_000_000
RECORDS = 1400
FILTER = "A->B.replication.transforms.seventh.filter"
HALF = "cast(get_json_object(cast(value as string), '$.n') as int) % 14 = 0"


class Drains:
    """Drains of a topic, and of those whose names begin so, over one state directory."""

    def __init__(self, spark: SparkSession, clusters: Clusters, folder: Path, topic: str) -> None:
        self._spark, self._clusters, self._topic = spark, clusters, topic
        self.state = folder / "state"
        self.state.mkdir()

    def drain(self, more: Mapping[str, str] | None = None) -> None:
        """Copies what there is, and waits for the end."""
        settings = {**SETTINGS, **(more or {})}
        config = flow_config(*self._clusters, f"{self._topic}.*", settings)
        RunningFlow(self._spark, self.state, config, "drain").join()

    def fall_behind(self, more: Mapping[str, str] | None = None) -> None:
        """Copies twice; the tables then have the first time only, as after a crash."""
        kept = self.state.with_name("kept")
        for start in (0, RECORDS):
            send(self._clusters, self._topic, start)
            self.drain(more)
            if start == 0:
                shutil.copytree(self.state, kept)
        shutil.rmtree(self.state)
        shutil.copytree(kept, self.state)


@pytest.fixture
def drains(spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str) -> Drains:
    """Drains of all topics of the test; one of them is there."""
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    return Drains(spark, clusters, tmp_path, topic_name)


def record(value: bytes) -> ProducedRecord:
    """One record of partition 0."""
    return ProducedRecord(partition=0, key=b"k", value=value, timestamp_ms=SENT_MS)


def send(clusters: Clusters, topic: str, start: int, count: int = RECORDS) -> None:
    """Sends the next records of `people`."""
    send_records(clusters[0], topic, islice(people(PARTITIONS, start), count))


@pytest.mark.parametrize("timestamps", ["preserve", "broker"])
def test_what_the_map_lost_is_counted_and_compared_as_it_was_written(
    clusters: Clusters, drains: Drains, topic_name: str, timestamps: str
) -> None:
    times = {"record.timestamps": timestamps}
    drains.fall_behind(times)
    send(clusters, topic_name, 2 * RECORDS)

    drains.drain(times)

    assert record_events(drains.state) == []
    assert_transformed(clusters, topic_name, PARTITIONS, is_timed=timestamps == "preserve")
    for partition in range(PARTITIONS):
        tp = TopicPartition(topic_name, partition)
        offsets = OffsetMap(stored_runs(drains.state, FLOW, tp))
        assert unsafe_answers(clusters, topic_name, partition, offsets) == []


def test_a_changed_transform_begins_behind_what_the_old_one_wrote(
    clusters: Clusters, drains: Drains, topic_name: str
) -> None:
    drains.fall_behind()
    send(clusters, topic_name, 2 * RECORDS)

    drains.drain({FILTER: HALF})

    events = stored(drains.state, "events")
    assert [(event.kind, event.partition) for event in events] == [
        ("transform-changed", partition) for partition in range(PARTITIONS)
    ]
    begins = {event.partition: event.offset_from for event in events}
    assert set(begins.values()) == {2 * RECORDS // PARTITIONS - 6}, (
        "behind the last that was copied"
    )

    def becomes(topic: str, one: Content) -> Content | None:
        made = masked_seventh(topic, one)
        number = int(one.value.split(b":")[1].split(b",")[0]) if one.value else 0
        return None if number >= 2 * RECORDS and number % 14 else made

    assert_transformed(clusters, topic_name, PARTITIONS, becomes)
    drains.drain({FILTER: HALF})
    assert len(stored(drains.state, "events")) == PARTITIONS, "it has not changed again"


def test_a_lost_state_is_found_again_by_what_the_records_become(
    clusters: Clusters, drains: Drains, topic_name: str
) -> None:
    send(clusters, topic_name, 0)
    drains.drain()
    shutil.rmtree(drains.state)
    send(clusters, topic_name, RECORDS)

    drains.drain()

    events = stored(drains.state, "events")
    assert [(event.kind, event.reaction) for event in events] == [("adopted", "match")] * PARTITIONS
    assert_transformed(clusters, topic_name, PARTITIONS)


def test_what_no_spark_evaluates_any_more_waits_for_a_decision(
    clusters: Clusters, drains: Drains, topic_name: str, spark: SparkSession
) -> None:
    drains.fall_behind()
    tables = Tables(spark, drains.state.as_uri())
    (row,) = stored(tables, "topics")
    steps = json.loads(row.transform)
    steps["steps"][0]["filter"] = "gone_function(value)"
    tables.append("topics", [{**row.asDict(), "transform": json.dumps(steps), "at": now()}])
    written = copied(clusters, topic_name)

    with pytest.raises(GuardError, match="does not evaluate") as refused:
        drains.drain()

    assert "gone_function" in str(refused.value)
    assert copied(clusters, topic_name) == written
    drains.drain({"replication.guard.unmatched": "skip"})


POISON = (
    b"%zz org.apache.kafka.common.errors.SaslAuthenticationException TimeoutException "
    b"KAFKA_DATA_LOSS RecordTooLargeException java.lang.OutOfMemoryError No space left on device "
    b"Received exception when fetching the next record from other-0. "
    b"the transform x fails: its value becomes NULL for other-0 offset 5"
)
"""Names of what a flow reacts to, in a record on which a transform throws."""


@pytest.mark.parametrize(
    ("filtered", "broken", "text"),
    [
        pytest.param(
            SETTINGS[FILTER],
            b'{"n":',
            "the transform seventh fails: its filter is NULL for {}-0 offset 350",
            id="null",
        ),
        pytest.param(
            f"{SETTINGS[FILTER]} and element_at(array(1), if(length(value) = 0, 0, 1)) = 1",
            b"",
            "seventh fails: its filter throws INVALID_INDEX_OF_ZERO for {}-0 offset 350",
            id="thrown",
        ),
        pytest.param(
            f"{SETTINGS[FILTER]} and url_decode(cast(value as string)) != ''",
            POISON,
            "seventh fails: its filter throws CANNOT_DECODE_URL for {}-0 offset 350",
            id="words",
        ),
        pytest.param(
            f"coalesce({SETTINGS[FILTER]}, true) and cast(value as string) not rlike '^(?:x|y)*$'",
            b"x" * 100_000,
            "seventh fails: its filter throws StackOverflowError for {}-0 offset 350",
            id="stack",
        ),
    ],
)
def test_a_record_that_nobody_can_decide_sets_its_topic_aside_and_others_go_on(
    clusters: Clusters,
    drains: Drains,
    topic_name: str,
    filtered: str,
    broken: bytes,
    text: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    other, place = f"{topic_name}-other", text.format(topic_name)
    create_topic(clusters[0].bootstrap, other, PARTITIONS)
    send(clusters, topic_name, 0, 700)
    send_records(clusters[0], topic_name, [record(broken)])
    send(clusters, topic_name, 700, 700)
    send(clusters, other, 0)

    with pytest.raises(FlowError, match=re.escape(place)) as failed:
        drains.drain({FILTER: filtered})

    (event,) = stored(drains.state, "events", "kind = 'set-aside'")
    assert place in event.text
    tables = [log.parent.name for log in drains.state.glob("*/_delta_log")]
    assert {"events", "topics"} <= {*tables}
    rows = [stored(drains.state, table, order="1") for table in tables]
    # what the flow fails with is the text in `executions`, REST and on the status topic
    written = "".join((*capfd.readouterr(), str(failed.value), str(rows)))
    assert "%zz" not in written
    assert "xxxx" not in written
    assert_transformed(clusters, other, PARTITIONS)
    with pytest.raises(FlowError, match=f"{topic_name}-0 offset 350"):
        drains.drain({FILTER: filtered})
    assert_transformed(clusters, other, PARTITIONS)

    drains.drain({"A->B.replication.transforms.seventh.unknown": "drop"})

    def becomes(topic: str, one: Content) -> Content | None:
        return None if one.value == broken else masked_seventh(topic, one)

    assert_transformed(clusters, topic_name, PARTITIONS, becomes)


def test_a_stretch_that_is_dropped_as_a_whole_moves_the_position(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    dropped = ({"n": 7 * number + 1} for number in range(40_000))
    fill(clusters[0], topic_name, 1, 0)
    send_records(
        clusters[0],
        topic_name,
        (record(json.dumps(one).encode()) for one in dropped),
    )
    settings = {**SETTINGS, "replication.realtime.batch.seconds": "600"}
    config = flow_config(*clusters, topic_name, settings)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    tp = TopicPartition(topic_name, 0)

    def reached() -> bool:
        return flow.context.metrics.look().copying.positions.get(tp) == 40_000

    flow.until(reached)
    flow.stop()

    assert stored_runs(tmp_path, FLOW, tp)[-1].src_until == 40_000
    assert record_events(tmp_path) == []
    assert copied(clusters, topic_name) == 0
