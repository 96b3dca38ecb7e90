"""Every job as a user starts it, through spark-submit.sh: all in one, and each part on its own."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import Committed, TopicPartition
from replication.state.tables import Tables
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.groups import commit, committed
from tests.support.internal_topics import heartbeats
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(400)]


def test_a_drain_moves_records_and_groups_and_the_other_jobs_go_on_alone(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, until: Until
) -> None:
    source, target = clusters
    flow = unique_flow()
    topic, group = f"{flow.source}-orders", f"{flow.source}-group"
    tp, remote = TopicPartition(topic, 0), TopicPartition(f"{flow.source}.{topic}", 0)
    fill(source, topic, 1, 100)
    more = {"groups": [f"{flow.source}-.*"], "sync.group.offsets.enabled": True}
    config = write_config(tmp_path, clusters, topic, more, flow)
    commit(source, group, {tp: Committed(42)})

    drained = spark_submit(config, "--mode", "drain")
    moved = committed(target, group)
    beats = len(heartbeats(target, flow))
    commit(source, group, {tp: Committed(77)})
    checkpoints = start_mirror(config, tmp_path / "log", "--job", "checkpoints")
    try:
        until(lambda: committed(target, group) == {remote: Committed(77)}, 120)
        stopped = replication("stop", config, "--job", "checkpoints")
    finally:
        checkpoints.discard()
    beaten = spark_submit(config, "--mode", "drain", "--job", "heartbeats")

    assert drained.returncode == beaten.returncode == 0, drained.stdout + beaten.stdout
    assert moved == {remote: Committed(42)}
    assert beats == 1
    assert len(heartbeats(target, flow)) == 2
    assert (stopped.returncode, stopped.stdout) == (0, f"{flow} stopped\n"), stopped.stderr
    checkpoints.stop()  # it had ended with exit code 0
    history = Tables(spark, (tmp_path / "state").as_uri()).read("checkpoints").collect()
    assert {(row.upstream, row.downstream, row.exact) for row in history} == {
        (42, 42, True),
        (77, 77, True),
    }
