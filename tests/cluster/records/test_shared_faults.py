"""Whatever is wrong with some partitions of a task, the others of it go on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.limits import Limit
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import ProducedRecord, create_topic
from replication.flows.replicate.idle import waits_for_limit
from replication.model import Mode
from tests.support.cut_log import damage_log, log_bytes
from tests.support.events import kinds_of_topics, restarts
from tests.support.flows import RunningFlow, flow_config
from tests.support.limiting import limit
from tests.support.local import Addressed, Clusters
from tests.support.said import SaidLines
from tests.support.topics import (
    assert_equal,
    copied,
    delete_records,
    delete_topic,
    fill,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LIMIT = "max.message.bytes"
PARTITIONS = 8
LARGE = ProducedRecord(partition=1, key=None, value=b"x" * 900_000)
SETTINGS = {
    "replication.source": "shared",
    "tasks.max": "1",
    "replication.guard.records-expired": "skip",
    # What notices the faults is the task: a look at the topics would see some of them.
    "refresh.topics.interval.seconds": "600",
    # The second large record waits for a quarter of an hour: a batch is in its middle until then.
    "replication.limit.topics": ".*-slow 1KB/s",
    "A.consumer.max.partition.fetch.bytes": "1",  # a batch of the log at a time
}
Both = tuple[Addressed, Addressed]


def others_go_on(flow: RunningFlow, both: Both, topic: str) -> None:
    """Sends records to all partitions of *topic*, and waits until they are copied."""
    send(both[0], topic, PARTITIONS, 100)
    end = log_ends(both[0].bootstrap, [topic])[topic]
    flow.until(lambda: copied(both, topic) == end)
    assert_equal(both, topic)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_what_is_wrong_with_some_partitions_leaves_the_others_of_their_task_alone(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
) -> None:
    """A corrupt batch, and a record that the target rejects."""
    both = source, target = own_process, clusters[1]
    damaged, rejected = f"{topic_name}-damaged", f"{topic_name}-rejected"
    for topic in (damaged, rejected):
        fill(source, topic, 3, 30)
    whole = log_bytes(source, damaged)
    send(source, damaged, 3, 30)
    damage_log(source, damaged, (whole + log_bytes(source, damaged)) // 2)
    create_topic(target.bootstrap, f"A.{rejected}", 3, {LIMIT: "50000"})
    fill(source, topic_name, PARTITIONS, 100)
    flow = RunningFlow(spark, tmp_path, flow_config(*both, f"{topic_name}.*", SETTINGS), mode)

    flow.until(lambda: ("set-aside", damaged) in kinds_of_topics(flow.tables))
    others_go_on(flow, both, topic_name)
    send_records(source, rejected, [LARGE])
    flow.until(lambda: ("set-aside", rejected) in kinds_of_topics(flow.tables))
    others_go_on(flow, both, topic_name)
    flow.stop()

    assert copied(both, rejected) == 30


def in_mid_batch(
    spark: SparkSession, clusters: Clusters, state: Path, topic: str, mode: Mode
) -> RunningFlow:
    """A flow of *topic* and of another one, whose second record its batch will wait for."""
    slow = f"{topic}-slow"
    create_topic(clusters[0].bootstrap, slow, 3)
    for _ in range(10):
        send_records(clusters[0], slow, [LARGE])
    fill(clusters[0], topic, PARTITIONS, 100)
    flow = RunningFlow(spark, state, flow_config(*clusters, f"{topic}.*", SETTINGS), mode)
    flow.until(lambda: copied(clusters, topic) == 100 and copied(clusters, slow) == 1)
    flow.until(lambda: waits_for_limit(flow.context))
    return flow


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_records_that_expire_under_a_batch_leave_the_others_of_its_task_alone(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    """Retention deletes what the task has not fetched yet."""
    slow = f"{topic_name}-slow"
    flow = in_mid_batch(spark, clusters, tmp_path, topic_name, mode)

    delete_records(clusters[0], slow, 10, partition=1)
    limit(flow, Limit(".*-slow"))
    flow.until(lambda: restarts(flow.tables))
    others_go_on(flow, clusters, topic_name)
    flow.stop()

    (why,) = restarts(flow.tables)
    assert "OffsetOutOfRangeException" in why
    assert ("jumped", slow) in kinds_of_topics(flow.tables)


@pytest.mark.parametrize(
    ("mode", "anew"),
    [
        pytest.param("realtime", 0, id="realtime"),
        pytest.param("microbatch", 0, id="microbatch"),
        pytest.param("microbatch", 3, id="microbatch-made anew with fewer records"),
        pytest.param("microbatch", 60, id="microbatch-made anew with more records"),
    ],
)
def test_a_topic_that_is_deleted_under_a_batch_leaves_the_others_of_its_task_alone(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    anew: int,
    said: SaidLines,
) -> None:
    """Nobody changes the limit, which would end the wait and be a reason to look at the topics.

    So the task learns nothing of the deletion: it has the old topic's next record in hand.
    """
    slow = f"{topic_name}-slow"
    flow = in_mid_batch(spark, clusters, tmp_path, topic_name, mode)

    delete_topic(clusters[0], slow)
    if anew:
        fill(clusters[0], slow, 3, anew)
    others_go_on(flow, clusters, topic_name)
    flow.until(lambda: said.of("topics_replaced"))
    if not anew:  # a look at the topics is due in ten minutes, and follows at once
        flow.until(lambda: "create it again" in flow.context.metrics.gone[slow][0])
        fill(clusters[0], slow, 3, 3)
    flow.until(lambda: ("set-aside", slow) in kinds_of_topics(flow.tables))
    flow.until(lambda: not flow.context.metrics.gone)
    flow.stop()

    (line,) = said.of("topics_replaced")
    assert line.text.startswith(f"{slow} was deleted on A")
    assert restarts(flow.tables) == []
    assert copied(clusters, slow) == 1  # what is new waits for an operator
