"""Topics that are deleted and created again while records flow: Kafka's clients do not notice."""

import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.model import Topic, TopicPartition
from replication.spark.session import jvm_of
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.stored import stored_runs
from tests.support.topics import copied, delete_topic, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

OLD, NEW = 100, 500
FAR_AWAY = {
    "refresh.topics.interval.seconds": "600",
    "state.write.interval.seconds": "1",
}


@contextmanager
def paused(spark: SparkSession) -> Iterator[None]:
    """Spark's process stands still, as in a long garbage collection."""
    process = jvm_of(spark).java.lang.ProcessHandle.current().pid()
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def stored_until(state: Path, topic: str) -> int:
    """Where the stored map of the topic's first partition ends."""
    runs = stored_runs(state, FLOW, TopicPartition(topic, 0))
    return runs[-1].src_until if runs else 0


class SlowCluster(Cluster):
    """A real cluster that takes its time to describe topics while somebody wants it so."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("A", {"bootstrap.servers": broker.bootstrap})
        self.answers = Event()
        self.answers.set()

    def describe(self, names: Iterable[str], *, listed: bool = False) -> dict[str, Topic]:
        self.answers.wait(60)
        return super().describe(names, listed=listed)


def test_what_was_copied_of_a_new_topic_before_anybody_noticed_is_said_and_counted(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, state = clusters[0], tmp_path / "state"
    file = write_config(tmp_path, clusters, topic_name)
    fill(source, topic_name, 1, OLD)
    slow, config = SlowCluster(source), flow_config(*clusters, topic_name, FAR_AWAY)
    flow = RunningFlow(spark, state, config, "realtime", slow)
    flow.until(lambda: stored_until(state, topic_name) == OLD)

    slow.answers.clear()
    with paused(spark):
        delete_topic(source, topic_name)
        fill(source, topic_name, 1, NEW)
    flow.until(lambda: copied(clusters, topic_name) > OLD)
    slow.answers.set()
    with pytest.raises(GuardError) as refused:
        flow.join()
    arguments = ["accept", str(file), "--flow", str(FLOW), "--topic", topic_name]
    dry = CliRunner().invoke(main, [*arguments, "--from", "earliest", "--json"])

    unseen = copied(clusters, topic_name) - OLD
    assert 0 < unseen <= NEW - OLD
    assert f"from its offset {OLD} to {OLD + unseen - 1}" in str(refused.value)
    assert stored_until(state, topic_name) == OLD
    (partition,) = json.loads(dry.stdout)["partitions"]
    assert (partition["lost"], partition["repeated"]) == (None, [OLD, OLD + unseen])


def test_a_copy_that_is_replaced_while_nothing_is_copied_is_noticed_and_filled(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    state, copy = tmp_path / "state", f"A.{topic_name}"
    fill(clusters[0], topic_name, 1, OLD)
    config = flow_config(*clusters, topic_name, FAR_AWAY)
    flow = RunningFlow(spark, state, config, "realtime")
    flow.until(lambda: stored_until(state, topic_name) == OLD)

    delete_topic(clusters[1], copy)
    create_topic(clusters[1].bootstrap, copy, 1)

    flow.until(lambda: copied(clusters, topic_name) == OLD)  # all of it, since the copy is empty
    flow.stop()
