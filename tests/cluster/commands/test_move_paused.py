"""``move-position`` of a paused partition, while the flow copies the others."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.model import Source, TopicPartition
from replication.state.locks import hold_jobs
from tests.support.cli import ok, run
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.numbered import numbered, numbers
from tests.support.stored import stored
from tests.support.topics import copied, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

SELDOM = {"refresh.topics.interval.seconds": "600"}


@pytest.mark.parametrize("source", ["spark", "shared"])
def test_a_paused_partition_is_moved_while_the_others_are_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, source: Source
) -> None:
    paused, other = f"{topic_name}-a", f"{topic_name}-b"
    for topic in (paused, other):
        create_topic(clusters[0].bootstrap, topic, 1)
        send_records(clusters[0], topic, numbered(0, 50))
    file = write_config(tmp_path, clusters, f"{topic_name}.*")
    config = flow_config(*clusters, f"{topic_name}.*", {**SELDOM, "replication.source": source})
    flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
    flow.until(lambda: copied(clusters, paused) == copied(clusters, other) == 50)

    def move(topic: str, *arguments: str) -> tuple[int, str]:
        done = run("move-position", file, "--topic", topic, "--to", "-20", *arguments)
        return done.exit_code, done.output

    too_early = move(paused, "--execute")
    ok(run("pause", file, "--topic", paused))
    send_records(clusters[0], paused, numbered(50, 60))
    with hold_jobs(flow.tables.root, [config.flow], "mirror"):  # as a process: it writes its map
        shown = json.loads(ok(run("positions", file, "--topic", paused, "--json")).stdout)
    moved, refused = move(paused, "--execute"), move(other, "--execute")
    send_records(clusters[0], other, numbered(50, 60))
    flow.until(lambda: copied(clusters, other) == 60)
    while_paused = numbers(clusters[1], f"A.{paused}")
    ok(run("resume", file, "--topic", paused))
    flow.until(lambda: copied(clusters, paused) == 80)
    first = flow.context.metrics.look().copying.first
    flow.stop()

    assert (too_early[0], refused[0]) == (4, 4), too_early
    assert f"python -m replication pause FILE --flow 'A->B' --topic {other}" in refused[1]
    (row,) = shown["positions"]
    assert (row["state"], row["source_offset"], row["lag"]) == ("paused", 50, 10)
    assert moved[0] == 0, moved
    assert while_paused == [*range(50)]
    assert numbers(clusters[1], f"A.{paused}") == [*range(50), *range(30, 60)]
    assert first[TopicPartition(paused, 0)] > first[TopicPartition(other, 0)]  # catching up anew
    assert numbers(clusters[1], f"A.{other}") == [*range(60)]
    assert [kind for kind in kinds(flow.tables) if kind in ("jumped", "move-unused")] == ["jumped"]
    (event,) = stored(flow.tables, "events", "kind = 'jumped'")
    assert (event.topic, event.offset_from, event.offset_until) == (paused, 30, 50)
