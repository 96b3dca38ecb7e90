"""A flow keeps to its limit, in each mode, and whatever waits for it is no trouble."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.limits import Limit
from replication.demo.workload import ProducedRecord, create_topic
from replication.flows.replicate.idle import IdlePartitions, waits_for_limit
from replication.model import Mode, Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.spark.acknowledged import pause_partitions
from replication.upkeep.prepare import prepare_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.gate.clock import Limit as TimeLimit
from tests.support.limiting import limit
from tests.support.local import Clusters
from tests.support.rates import TIMES, Sent, between, mean, sent_to, worst_second
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, now_ms, send_records
from tests.support.waiting import in_time, measured

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SIZE = 1_000
RATE = 400_000
LOWER = 100_000
SELDOM = {"refresh.topics.interval.seconds": "600"}
"""A look at the topics puts the configuration's limits in force again."""
STOP_SECONDS = 5.0
A_FIFTH_MORE = 1.2


def send_bytes(clusters: Clusters, topic: str, count: int, size: int = SIZE) -> None:
    """Sends records of a size to two partitions in turn."""
    records = (
        ProducedRecord(partition=number % 2, key=None, value=b"x" * size) for number in range(count)
    )
    send_records(clusters[0], topic, records)


def held_up(spark: SparkSession, folder: Path, clusters: Clusters, topic: str) -> RunningFlow:
    """A flow that copies six records; its limit holds up the second one for 100 s."""
    create_topic(clusters[0].bootstrap, topic, 2)
    send_bytes(clusters, topic, 6, size=100_000)
    settings = {**SELDOM, "replication.limit.bytes.per.second": "1KB"}
    flow = RunningFlow(spark, folder, flow_config(*clusters, topic, settings), "realtime")
    flow.until(lambda: copied(clusters, topic) >= 1 and waits_for_limit(flow.context))
    return flow


def limits_of(flow: RunningFlow) -> list[str]:
    """The events about limits, and any that says a partition has stalled."""
    return [
        event.kind
        for event in stored(flow.tables, "events")
        if "limit" in event.kind or event.kind == "stalled"
    ]


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_the_rate_is_the_limit_and_a_change_acts_within_a_second(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    """The first rate is the file's. The stop comes while a record waits for most of a second."""
    create_topic(clusters[0].bootstrap, topic_name, 2)
    send_bytes(clusters, topic_name, 20_000)
    settings = {**TIMES, **SELDOM, "replication.limit.bytes.per.second": f"{RATE}"}
    flow = RunningFlow(spark, tmp_path, flow_config(*clusters, topic_name, settings), mode)
    began = TimeLimit(1)
    flow.until(lambda: copied(clusters, topic_name) * SIZE >= 8 * RATE)
    before_change = now_ms()
    limit(flow, Limit(None, LOWER))
    changed_at = now_ms()
    at_change = copied(clusters, topic_name)
    flow.until(lambda: (copied(clusters, topic_name) - at_change) * SIZE >= 6 * LOWER)
    lowered_until = now_ms()
    limit(flow, Limit(None, 2_000))
    flow.until(lambda: now_ms() - lowered_until > 2_000)
    with in_time(STOP_SECONDS, "a stop under 2 KB/s"):
        flow.stop()

    sent = sent_to(clusters[1], f"A.{topic_name}")
    start = sent[0].at_ms
    by_file = between(sent, start, before_change)
    lowered = between(sent, changed_at + 1_000, lowered_until)
    with measured("the rates", began):
        assert worst_second(sent) <= RATE * A_FIFTH_MORE
        assert worst_second(lowered) <= LOWER * A_FIFTH_MORE
        check_mean(by_file, start, before_change, RATE)
        check_mean(lowered, changed_at + 1_000, lowered_until, LOWER)
    assert limits_of(flow) == ["limited"] * 3


def check_mean(sent: list[Sent], from_ms: int, until_ms: int, rate: int) -> None:
    """Asserts it: a busy machine sends less than it may, and a limit does not see to the least."""
    assert rate * 0.8 <= mean(sent, from_ms, until_ms) <= rate * 1.05


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_limit_of_a_topic_holds_up_no_other_topic_of_the_same_task(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    """The second record of the limited topic waits for a quarter of an hour, or its limit's end.

    The task meets it long before the other topic's last record, of which there are many fetches.
    """
    slow, fast = f"{topic_name}-slow", f"{topic_name}-fast"
    for topic in (slow, fast):
        create_topic(clusters[0].bootstrap, topic, 2)
    send_bytes(clusters, slow, 6, 900_000)
    for _ in range(20):  # as many batches of each partition's log
        send_bytes(clusters, fast, 100)
    settings = {
        **SELDOM,
        "replication.source": "shared",
        "tasks.max": "1",
        "replication.limit.topics": ".*-slow 1KB/s",
        "A.consumer.max.partition.fetch.bytes": "1",  # a batch of the log at a time, in turn
    }
    config = flow_config(*clusters, f"{slow}, {fast}", settings)
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, slow) > 0 and copied(clusters, fast) == 2_000)
    flow.until(lambda: waits_for_limit(flow.context))
    while_limited = copied(clusters, slow)
    limit(flow, Limit(".*-slow"))
    flow.until(lambda: copied(clusters, slow) == 6)
    flow.stop()

    assert while_limited < 6
    assert_equal(clusters, slow, fast)
    assert limits_of(flow) == ["limited", "limit-ended"]


def test_a_partition_that_waits_for_its_limit_has_not_stalled(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """The second record waits until the limit ends."""
    flow = held_up(spark, tmp_path, clusters, topic_name)
    context, tp = flow.context, TopicPartition(topic_name, 0)
    idle = IdlePartitions(context, prepare_topics(flow.config, context.source, context.target))
    pending = PendingRuns({tp: Position(1, 1)})
    for now in (0, 60, 119, 120, 180, 600):
        idle.check(pending, now)
    while_limited = copied(clusters, topic_name)
    limit(flow, Limit())
    flow.until(lambda: copied(clusters, topic_name) == 6)
    flow.stop()

    assert while_limited < 6
    assert limits_of(flow) == ["limited", "limit-ended"]
    assert_equal(clusters, topic_name)


def test_a_limit_ends_with_the_flow_that_had_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """The next one of that name has none. Under the old one, its second record would wait."""
    held_up(spark, tmp_path, clusters, topic_name).stop()
    while_limited = copied(clusters, topic_name)

    RunningFlow(spark, tmp_path, flow_config(*clusters, topic_name), "drain").join()

    assert while_limited < 6
    assert_equal(clusters, topic_name)


def test_a_flow_goes_by_nothing_that_was_told_for_one_that_was_killed(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """On platforms the driver's JVM outlives the Python that has said it."""
    create_topic(clusters[0].bootstrap, topic_name, 2)
    send_bytes(clusters, topic_name, 6)
    config = flow_config(*clusters, topic_name)
    pause_partitions(spark, config.flow, [TopicPartition(topic_name, 0)])

    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) == 6)
    flow.stop()

    assert_equal(clusters, topic_name)
