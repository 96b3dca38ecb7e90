"""MirrorMaker 2's own tools read what the mirror writes; the mirror takes over from MM2."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.background import background_heartbeats
from replication.control.failover import failover_offsets
from replication.control.groups import open_view
from replication.demo.topic_log import log_ends
from replication.flows.checkpoints import Checkpoints
from replication.flows.replicate.map_writer import offset_syncs_topic
from replication.groups.csv_file import to_csv
from replication.model import Committed, Flow, TopicPartition
from replication.upkeep.groups import checkpoints_topic, read_checkpoints
from tests.support.flows import RunningFlow, mirror_config, unique_flow
from tests.support.groups import commit, committed
from tests.support.internal_topics import write_internal
from tests.support.java_tools import console_lines, mirror_client, reset_offsets
from tests.support.local import Clusters, Until
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.stored import stored
from tests.support.topics import fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

START_SECONDS = 90  # for MirrorMaker 2


@pytest.fixture
def flow() -> Flow:
    """A flow whose internal topics no other test has."""
    return unique_flow()


@pytest.mark.guarantee
def test_mirror_maker_2_tools_read_what_we_write(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, flow: Flow
) -> None:
    source, target = clusters
    topic, group = f"{flow.source}-orders", f"{flow.source}-group"
    fill(source, topic, 1, 300)
    commit(source, group, {TopicPartition(topic, 0): Committed(142, "a note")})
    config = mirror_config(source, target, topic, settings(flow), flow)
    with background_heartbeats(spark, config, config.flows, "mirror"):
        running = RunningFlow(spark, tmp_path / "state", config.flows[0], "drain")
        running.join()
    Checkpoints(running.context).round()

    answers = mirror_client(target.bootstrap, flow.source, group)
    remote = f"{flow.source}.{topic}"
    syncs_topic = f"mm2-offset-syncs.{flow.target}.internal"
    written = len(offset_syncs_topic(running.context).records())
    syncs = console_lines(source.bootstrap, syncs_topic, "OffsetSync", wanted=written)
    checkpoints_name = f"{flow.source}.checkpoints.internal"
    (checkpoint,) = console_lines(target.bootstrap, checkpoints_name, "Checkpoint", wanted=1)
    offsets, state = tmp_path / "offsets.csv", (tmp_path / "state").as_uri()
    with open_view(replace(config, state_dir=state), config.flows[0]) as view:
        offsets.write_text(to_csv(failover_offsets(view, {group}.__contains__).offsets))
    reset_offsets(target.bootstrap, offsets, group)

    assert answers["replicationHops"] == 1
    assert flow.source in answers["upstreamClusters"]
    assert f"{flow.source}.heartbeats" in answers["heartbeatTopics"]
    assert f"{flow.source}.checkpoints.internal" in answers["checkpointTopics"]
    assert answers["remoteTopics(source)"] == sorted([remote, f"{flow.source}.heartbeats"])
    assert answers["translateOffsets"] == {f"{remote}-0": [142, "a note"]}
    assert answers["translateOffsets(pattern)"] == {group: answers["translateOffsets"]}
    assert [line for line in syncs if topic in line] == [
        f"OffsetSync{{topicPartition={topic}-0, upstreamOffset={at}, downstreamOffset={at}}}"
        for at in (97, 198, 299)
    ]
    assert checkpoint == (
        f"Checkpoint{{consumerGroupId={group}, topicPartition={remote}-0, "
        "upstreamOffset=142, downstreamOffset=142, metadata=a note}"
    )
    assert committed(target, group) == {TopicPartition(remote, 0): Committed(142)}


@pytest.mark.guarantee
def test_the_mirror_takes_over_from_mirror_maker_2(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, flow: Flow, until: Until
) -> None:
    source, target = clusters
    topic, group = f"{flow.source}-orders", f"{flow.source}-group"
    tp, remote = TopicPartition(topic, 0), f"{flow.source}.{topic}"
    fill(source, topic, 1, 300)
    commit(source, group, {tp: Committed(250)})
    write_internal(source, f"mm2-offset-syncs.{flow.target}.internal", [])
    config = mirror_config(source, target, topic, settings(flow), flow).flows[0]
    with mirror_maker_2(
        tmp_path / "mm2", mm2_properties(clusters, flow.source, flow.target)
    ) as running:

        def settled() -> bool:
            running.check()
            with contextlib.suppress(Exception):
                return bool(committed(target, group))
            return False

        until(settled, START_SECONDS)
    send(source, topic, 1, 100)

    ours = RunningFlow(spark, tmp_path / "state", config, "drain")
    ours.join()
    checkpoints = Checkpoints(ours.context)
    key = group, TopicPartition(remote, 0)
    checkpoints.round()
    first = read_checkpoints(checkpoints_topic(ours.context.target, config))[key]
    commit(source, group, {tp: Committed(333)})
    checkpoints.round(at_once=True)
    last = read_checkpoints(checkpoints_topic(ours.context.target, config))[key]

    assert log_ends(target.bootstrap, [remote]) == {remote: 400}
    assert [row.kind for row in stored(ours.tables, "events")] == ["adopted"]
    assert first.upstream == 250  # MirrorMaker 2 wrote it: safe, but coarse
    assert 0 < first.downstream <= 250
    assert (last.upstream, last.downstream) == (333, 333)


def settings(flow: Flow) -> Mapping[str, str]:
    return {
        "replication.mode": "drain",
        "groups": f"{flow.source}-.*",
        "heartbeats.replication.enabled": "true",
        "topics.exclude": r"heartbeats\..*",
    }
