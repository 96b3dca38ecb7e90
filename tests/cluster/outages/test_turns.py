"""The end of a Real-Time batch: another query's tasks go on, and nothing is lost or repeated."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.home import home
from replication.demo.brokers import BrokerSettings
from replication.demo.compare import compare
from replication.demo.play import MirrorProcess
from replication.demo.workload import PacedProducer, plain_records
from replication.errors import FlowError
from replication.model import Flow, TopicPartition
from tests.support.commands import spark_submit, start_mirror
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.gate.clock import Limit
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.proxy import proxied_broker
from tests.support.stored import record_events, stored_runs
from tests.support.topics import assert_equal, fill, now_ms
from tests.support.waiting import Late

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = {"replication.source": "shared", "replication.realtime.batch.seconds": "1"}
TURN_SECONDS = 120.0  # until the second query has ended a batch
PARTITIONS = 3
EACH_SECOND = 300.0
CRASHES = 2


def in_turn(spark: SparkSession, flow: Flow) -> int:
    """How many batches of the flow's second query have ended."""
    queries = [q for q in spark.streams.active if q.name == f"{flow.slug} generation 1-in-turn"]
    return sum(len(q.recentProgress) for q in queries)


@pytest.mark.spark
def test_two_queries_in_turn_copy_everything_once_and_in_order(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, PARTITIONS, 30)
    config = flow_config(*clusters, topic_name, {**SHORT, "tasks.max": "1"})
    producer = PacedProducer(
        clusters[0].bootstrap,
        {topic_name: plain_records(PARTITIONS, size_bytes=100, now_ms=now_ms())},
        records_per_second=EACH_SECOND,
    )

    flow = RunningFlow(spark, tmp_path, config, "realtime")
    producer.start()
    try:
        flow.until(lambda: in_turn(spark, config.flow) >= 2)
    finally:
        producer.finish()
    flow.stop()
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert_equal(clusters, topic_name)
    for partition in range(PARTITIONS):
        (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, partition))
        assert run.is_dense
        assert run.src_from == run.tgt_from == 0
    assert record_events(flow.tables) == []


@pytest.mark.job
@pytest.mark.guarantee
def test_a_crash_while_one_task_hands_over_to_another_loses_and_repeats_nothing(
    clusters: Clusters, broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    source, flow = clusters[0], unique_flow()
    with proxied_broker(flow.target, tmp_path / "target", broker_settings) as (target, proxy):
        fill(source, topic_name, PARTITIONS, 3000)
        to_proxy = {flow.target: {"bootstrap.servers": proxy.bootstrap}}
        config = write_config(tmp_path, (source, target), topic_name, {**SHORT, **to_proxy}, flow)
        producer = PacedProducer(
            source.bootstrap,
            {topic_name: plain_records(PARTITIONS, size_bytes=100, now_ms=now_ms())},
            records_per_second=EACH_SECOND,
        )
        producer.start()
        try:
            for _ in range(CRASHES):
                mirror = start_mirror(config, tmp_path / "mirror.log")
                try:
                    await_turn(mirror, flow)
                    proxy.cut()  # a task flushes without an answer, and the next one waits for it
                    mirror.run_for(2.0)
                    kill_tree(mirror.pid)
                    with pytest.raises(FlowError, match="exit code -9"):
                        mirror.run_for(10)
                finally:
                    proxy.heal()
                    mirror.discard()
        finally:
            producer.finish()
        finished = spark_submit(config, "--mode", "drain")

        assert finished.returncode == 0, finished.stdout[-3000:]
        remote = {topic_name: f"{flow.source}.{topic_name}"}
        (report,) = compare(source.bootstrap, target.bootstrap, remote).values()
        assert report.is_equal, str(report)
        for partition in range(PARTITIONS):
            (run,) = stored_runs(tmp_path / "state", flow, TopicPartition(topic_name, partition))
            assert run.is_dense


def await_turn(mirror: MirrorProcess, flow: Flow) -> None:
    """Returns once the second query of the running generation has ended a batch."""
    limit = Limit(TURN_SECONDS)
    batches = f"scratch/*/{flow.slug}-*/*-in-turn/commits/0"
    known = set(home().glob(batches))
    while not set(home().glob(batches)) - known:
        if limit.is_over:
            raise Late(f"no second query has read; see {mirror.log}", limit)
        mirror.run_for(0.05)
