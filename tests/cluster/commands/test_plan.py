"""``replication plan`` shows what a start would do, and changes nothing."""

import json
import re
from itertools import islice
from pathlib import Path
from unittest.mock import ANY

import pytest

from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, sending
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun
from tests.support.cli import run
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, identity_flows, write_config
from tests.support.offset_tables import write_offset_map
from tests.support.topics import fill

pytestmark = pytest.mark.cluster

EARLIEST = "auto.offset.reset=earliest"


def test_plan_shows_what_would_be_created_and_creates_nothing(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 3)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(3, size_bytes=9, now_ms=0), 6))

    result = run("plan", write_config(tmp_path, clusters, topic_name))

    assert result.exit_code == 0
    for partition in range(3):
        row = [f"{topic_name}-{partition}", f"A.{topic_name}", "0", EARLIEST, "create"]
        assert row in cells(result.stdout)
    assert log_ends(target.bootstrap, [f"A.{topic_name}"]) == {f"A.{topic_name}": 0}


def test_plan_shows_where_each_partition_resumes_and_why(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    topic, remote = topic_name, f"A.{topic_name}"
    for broker, name, records in ((source, topic, 40), (target, remote, 16)):
        create_topic(broker.bootstrap, name, 4)
        with sending(broker.bootstrap) as sender:
            sender.send_all(name, islice(plain_records(4, size_bytes=9, now_ms=0), records))
    create_topic(source.bootstrap, f"{topic}-new", 1)
    recorded = {  # four records of each partition are on the target
        TopicPartition(topic, 0): [OffsetRun(0, 4, 0, 4)],
        TopicPartition(topic, 1): [OffsetRun(0, 3, 0, 3)],
        TopicPartition(topic, 2): [OffsetRun(0, 9, 0, 9)],
    }
    write_offset_map(tmp_path / "state", FLOW, recorded, topic_id(source, topic))
    file = write_config(tmp_path, clusters, f"{topic}.*")

    shown = run("plan", file)
    document = json.loads(run("plan", file, "--json").stdout)

    aside = "set aside with partition 2; else"
    ahead = "offset map; then skips 1 record that the target already has"
    assert shown.exit_code == 5
    assert f"A->B: {topic}-2: the target's log ends at 4, but the offset map ends at 9" in (
        shown.stderr
    )
    assert [row for row in cells(shown.stdout) if row and row[0].startswith(topic)] == [
        *([f"{topic}-{number}", remote, "-", ANY, ""] for number in range(4)),
        [f"{topic}-new-0", f"{remote}-new", "0", EARLIEST, "create"],
    ]
    (flow,) = document["flows"]
    assert [part["offset"] for part in flow["topics"][0]["partitions"]] == [None] * 4
    assert [part["reason"] for part in flow["topics"][0]["partitions"]] == [
        f"{aside} at offset 4, offset map",
        f"{aside} at offset 3, {ahead}",
        ANY,
        f"{aside} by the records of the target",
    ]
    assert [part["origin"] for part in flow["topics"][0]["partitions"]] == [
        "set aside",
        "set aside",
        "problem",
        "set aside",
    ]
    assert [topic["create"] for topic in flow["topics"]] == [False, True]
    assert len(flow["problems"]) == 1


def test_plan_names_a_topic_that_was_created_again(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    fill(clusters[1], f"A.{topic_name}", 1, 4)
    recorded = {TopicPartition(topic_name, 0): [OffsetRun(0, 4, 0, 4)]}
    write_offset_map(tmp_path / "state", FLOW, recorded, "another-id")
    kept = f"{topic_name}-kept"  # without any topic that is there the state is of other clusters
    create_topic(clusters[0].bootstrap, kept, 1)
    other = {TopicPartition(kept, 0): [OffsetRun(0, 1, 0, 1)]}
    write_offset_map(tmp_path / "state", FLOW, other, topic_id(clusters[0], kept))

    shown = run("plan", write_config(tmp_path, clusters, topic_name))

    assert shown.exit_code == 5
    assert f"{topic_name} was deleted and created again" in shown.stderr


def test_plan_shows_that_an_empty_remote_topic_is_filled_again(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 7)
    recorded = {TopicPartition(topic_name, 0): [OffsetRun(0, 4, 0, 4)]}
    write_offset_map(tmp_path / "state", FLOW, recorded, topic_id(clusters[0], topic_name))

    shown = run("plan", write_config(tmp_path, clusters, topic_name), "--json")

    (flow,) = json.loads(shown.stdout)["flows"]
    (start,) = flow["topics"][0]["partitions"]
    assert (start["offset"], start["origin"]) == (0, "created again")
    assert shown.exit_code == 0


def test_plan_shows_the_internal_topics_and_where_they_are(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    flow = unique_flow()
    checkpoints = f"{flow.source}.checkpoints.internal"
    create_topic(target.bootstrap, checkpoints, 1)

    shown = run("plan", write_config(tmp_path, clusters, topic_name, flow=flow))

    rows = cells(shown.stdout)
    assert [checkpoints, flow.target, "checkpoints", ""] in rows
    syncs = f"mm2-offset-syncs.{flow.target}.internal"
    assert [syncs, flow.source, "offset syncs", "create"] in rows
    assert [f"mm2-status.{flow.source}.internal", flow.target, "status", "create"] in rows
    assert "heartbeats" in {row[0] for row in rows if row}
    assert log_ends(source.bootstrap, [syncs]) == {syncs: 0}
    assert f"warning: topic {checkpoints} has cleanup.policy=delete" in shown.stdout


def test_plan_shows_settings_that_would_change_and_warns_of_a_target_that_keeps_less(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1, {"cleanup.policy": "compact"})
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {"retention.bytes": "1000"})

    result = run("plan", write_config(tmp_path, clusters, topic_name))

    default, note = "(target's default)", "overwrites a change made on the target"
    assert [f"A.{topic_name}", "cleanup.policy", default, "compact", ""] in cells(result.stdout)
    assert [f"A.{topic_name}", "retention.bytes", "1000", default, note] in cells(result.stdout)
    assert f"warning: topic A.{topic_name} on B rejects or deletes records" in result.stdout
    assert "retention.bytes=1000 (-1 on the source)" in result.stdout


def test_plan_names_a_topic_that_two_flows_would_write(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, _ = clusters
    create_topic(source.bootstrap, topic_name, 1)
    third = {"clusters": ["A", "B", "C"], "C": {"bootstrap.servers": source.bootstrap}}
    file = write_config(
        tmp_path, clusters, topic_name, {**identity_flows(topic_name, "C->B"), **third}
    )

    result = run("plan", file)

    assert result.exit_code == 5
    assert (
        f"C->B: flow A->B writes topic {topic_name} on cluster B, to which C->B would copy "
        f"{topic_name}; exclude it from all flows but one with topics.exclude, or name "
        f"{topic_name} in replication.aggregate.topics of each of them"
    ) in result.stderr


def test_plan_says_of_a_declared_topic_that_it_is_shared(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, _ = clusters
    create_topic(source.bootstrap, topic_name, 1)
    third = {"clusters": ["A", "B", "C"], "C": {"bootstrap.servers": source.bootstrap}}
    declared = {"replication.aggregate.topics": f"{topic_name}.*"}
    more = {**identity_flows(topic_name, "C->B"), **third, **declared}

    result = run("plan", write_config(tmp_path, clusters, topic_name, more), "--json")

    reasons = [
        partition["reason"]
        for flow in json.loads(result.stdout)["flows"]
        for topic in flow["topics"]
        for partition in topic["partitions"]
    ]
    assert reasons == [
        f"auto.offset.reset=earliest; at least once: shared with flow {other}"
        for other in ("C->B", "A->B")
    ]
    assert result.exit_code == 0


def topic_id(broker: Broker, topic: str) -> str:
    with Cluster("A", {"bootstrap.servers": broker.bootstrap}) as cluster:
        return cluster.describe([topic])[topic].topic_id


def cells(table: str) -> list[list[str]]:
    """The rows of printed tables."""
    lines = table.splitlines()
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]
