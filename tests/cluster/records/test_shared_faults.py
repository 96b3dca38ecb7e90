"""Whatever is wrong with some partitions of a task, the others of it go on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.limits import Limit
from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord, create_topic
from replication.flows.replicate.limiting import waits_for_limit
from replication.model import Mode
from tests.support.cut_log import damage_log, log_bytes
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.limiting import limit
from tests.support.local import Clusters
from tests.support.topics import (
    assert_equal,
    copied,
    delete_records,
    delete_topic,
    fill,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.soak]

LIMIT = "max.message.bytes"
PARTITIONS = 8
LARGE = ProducedRecord(partition=1, key=None, value=b"x" * 100_000)
SETTINGS = {
    "replication.source": "shared",
    "tasks.max": "1",
    "replication.guard.records-expired": "skip",
    # What notices the faults is the task: a look at the topics would see some of them.
    "refresh.topics.interval.seconds": "600",
    # The second record of these topics waits for 100 s: a batch is in its middle until then.
    "replication.limit.topics": ".*-slow.* 1KB/s",
    "A.consumer.max.partition.fetch.bytes": "1",  # a batch of the log at a time
}


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_what_is_wrong_with_some_partitions_leaves_the_others_of_their_task_alone(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
) -> None:
    """A corrupt batch, an offset out of range, a deleted topic, a record that is rejected."""
    both = source, target = own_process, clusters[1]
    damaged, rejected = f"{topic_name}-damaged", f"{topic_name}-rejected"
    expired, gone = f"{topic_name}-slow-expired", f"{topic_name}-slow-gone"
    for topic in (damaged, rejected, expired, gone):
        fill(source, topic, 3, 30)
    whole = log_bytes(source, damaged)
    send(source, damaged, 3, 30)
    damage_log(source, damaged, (whole + log_bytes(source, damaged)) // 2)
    create_topic(target.bootstrap, f"A.{rejected}", 3, {LIMIT: "50000"})
    for topic in (expired, gone):
        for _ in range(10):
            send_records(source, topic, [LARGE])
    fill(source, topic_name, PARTITIONS, 100)
    flow = RunningFlow(spark, tmp_path, flow_config(*both, f"{topic_name}.*", SETTINGS), mode)

    def others_go_on() -> None:
        before = copied(both, topic_name)
        send(source, topic_name, PARTITIONS, 100)
        flow.until(lambda: copied(both, topic_name) == before + 100)
        assert_equal(both, topic_name)

    flow.until(lambda: ("set-aside", damaged) in kinds_of_topics(flow.tables))
    flow.until(lambda: waits_for_limit(flow.context))
    flow.until(lambda: copied(both, topic_name) == 100 and copied(both, rejected) == 30)
    delete_records(source, expired, 20, partition=1)
    delete_topic(source, gone)
    limit(flow, Limit(".*-slow.*"))
    flow.until(lambda: ("jumped", expired) in kinds_of_topics(flow.tables))
    others_go_on()
    send_records(source, rejected, [LARGE])
    flow.until(lambda: ("set-aside", rejected) in kinds_of_topics(flow.tables))
    others_go_on()
    flow.stop()

    assert copied(both, rejected) == 30
