"""The metrics of a flow shows what the flow does, on two real clusters."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.flows.checkpoints import Checkpoints
from replication.model import Committed, TopicPartition
from tests.support.checkpoints import config_of
from tests.support.flows import RunningFlow
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_the_board_shows_what_a_flow_copies_sets_aside_and_translates(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, _ = clusters
    long = f"{topic_name}-long".ljust(248, "x")
    fill(source, long, 1, 10)
    fill(source, topic_name, 2, 300)
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    commit(source, group, {tp: Committed(40)})
    flow = RunningFlow(spark, tmp_path, config_of(clusters, f"{topic_name}.*"), "microbatch")
    metrics = flow.context.metrics

    flow.until(lambda: metrics.look().copying.records.get(topic_name) == 300)
    running = metrics.look()
    Checkpoints(flow.context).round(at_once=True)
    flow.stop()
    ended = metrics.look()

    copying = running.copying
    assert running.state.activity == "replicating"
    assert (copying.mode, copying.generations) == ("microbatch", (1,))
    assert copying.topics == {topic_name: f"A.{topic_name}"}
    assert copying.positions == flow.context.source.log_ends(copying.positions)
    assert sum(copying.positions.values()) == 300
    assert copying.newest_at is not None
    assert running.aside.keys() == {long}
    assert "has 250 characters" in str(running.aside[long])
    assert (ended.state.activity, ended.copying.generations) == ("ended", ())
    assert (ended.copying.positions, ended.copying.restarts) == (copying.positions, 0)
    assert ended.copying.map_written_at is not None
    (position,) = [one for one in ended.round.positions if one.group == group]
    assert (position.upstream, position.downstream) == (tp, 40)
    assert ended.round.emitted >= 1
