"""Operators change a flow while it runs: lists and pauses, by the commands."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic, plain_records
from replication.errors import GuardError, NoAnswerError
from replication.flows.checkpoints import Checkpoints
from replication.flows.metadata import MetadataSync
from replication.model import Committed, Source, TopicPartition
from replication.state.tables import reader_of
from tests.support.checkpoints import emitted
from tests.support.cli import ok, run
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config
from tests.support.groups import commit, committed
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.topic_settings import change_topic, overrides
from tests.support.topics import (
    assert_equal,
    copied,
    delete_topic,
    fill,
    now_ms,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

DAY_MS = 86_400_000
SELDOM = {"refresh.topics.interval.seconds": "600"}


class Operator:
    """Runs commands on one file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, command: str, *arguments: object) -> Result:
        return ok(run(command, self._file, *arguments))

    def history(self) -> Sequence[dict[str, object]]:
        changes: list[dict[str, object]] = json.loads(self("history", "--json").stdout)["changes"]
        return changes


def in_partition(flow: RunningFlow, topic: str, partition: int) -> int:
    tp = TopicPartition(f"A.{topic}", partition)
    return flow.context.target.log_ends([tp])[tp]


@pytest.mark.parametrize("source", ["spark", "shared"])
def test_a_running_flow_follows_its_operators(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, source: Source
) -> None:
    first, other, gone = (f"{topic_name}-{letter}" for letter in "abc")
    fill(clusters[0], first, 2, 20)
    for topic in (other, gone):
        fill(clusters[0], topic, 1, 10)
    operator = Operator(write_config(tmp_path, clusters, first))
    config = flow_config(*clusters, first, {**SELDOM, "replication.source": source})
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    flow.until(lambda: copied(clusters, first) == 20)

    added = operator("topics", "--add", other, "--add", gone, "--reason", "CHG-117")
    flow.until(lambda: copied(clusters, other) == copied(clusters, gone) == 10)
    operator("pause", "--topic", first, "--partition", 1)
    send(clusters[0], first, 2, 20)
    send(clusters[0], other, 1, 10)
    flow.until(lambda: copied(clusters, other) == 20 and in_partition(flow, first, 0) == 20)
    while_paused = in_partition(flow, first, 1)
    generations = flow.context.metrics.look().copying.generations
    shown = [*flow.context.metrics.look().copying.paused]
    operator("undo", 2, "--reason", "done")
    flow.until(lambda: copied(clusters, first) == 40)
    operator("topics", "--remove", other)
    send(clusters[0], first, 2, 20)
    send(clusters[0], other, 1, 10)
    flow.until(lambda: copied(clusters, first) == 60)
    while_removed = copied(clusters, other)
    generations_then = flow.context.metrics.look().copying.generations
    operator("topics", "--add", other)
    flow.until(lambda: copied(clusters, other) == 30)
    operator("pause", "--topic", gone)
    delete_topic(clusters[0], gone)
    send(clusters[0], first, 2, 20)
    flow.until(lambda: copied(clusters, first) == 80)
    operator("resume", "--topic", gone)
    send(clusters[0], first, 2, 20)
    flow.until(lambda: copied(clusters, first) == 100)
    flow.stop()

    assert "in force" in added.output
    assert f"{other} -> A.{other}" in added.output
    assert (while_paused, while_removed) == (10, 20)
    assert shown == [TopicPartition(first, 1)]
    if source == "shared":  # no query ends for what one topic is asked
        assert generations == generations_then
    assert_equal(clusters, first, other)
    history = operator.history()
    assert [change["number"] for change in history] == [*range(1, 7 + 1)]
    assert history[0]["reason"] == "CHG-117"
    assert str(history[0]["by"]).count("@") == 1
    assert history[1]["state"] == "undone"
    rows = reader_of(flow.tables).rows("changes", FLOW)
    assert sorted(row["number"] for row in rows) == [*range(1, 7 + 1)]
    assert kinds(flow.tables).count("changed") == 7
    assert "realigned" not in kinds(flow.tables)


def test_a_held_flow_writes_nothing_on_its_target_until_it_is_released(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Neither where the hold comes while a round is under way, which it waits for."""
    gone, later, group = f"{topic_name}-gone", f"{topic_name}-later", f"g-{topic_name}"
    for topic in (topic_name, gone):
        fill(clusters[0], topic, 1, 100)
    file = write_config(tmp_path, clusters, f"{topic_name}.*")
    operator, tp = Operator(file), TopicPartition(topic_name, 0)
    remote = TopicPartition(f"A.{topic_name}", 0)
    settings = {
        "groups": f"{group}.*",
        "sync.group.offsets.enabled": "true",
        "replication.deletions.enabled": "true",
        "replication.deletions.grace.seconds": "0",
    }
    config = flow_config(*clusters, f"{topic_name}.*", settings)
    flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) == copied(clusters, gone) == 100)
    source, target = flow.context.source, flow.context.target
    checkpoints, metadata = Checkpoints(flow.context), MetadataSync(flow.context)

    def rounds() -> None:
        checkpoints.round(at_once=True)
        metadata.round()
        metadata.round()  # a topic is missing at first, then deleted

    def on_target() -> tuple[object, ...]:
        found = target.describe([f"A.{name}" for name in (topic_name, gone, later)])
        partitions = {name: topic.partitions for name, topic in found.items()}
        kept = overrides(target, f"A.{topic_name}").get("retention.ms")
        return partitions, kept, committed(clusters[1], group), emitted(flow.context)

    def is_moved_to(offset: int) -> bool:
        rounds()
        return committed(clusters[1], group) == {remote: Committed(offset)}

    commit(clusters[0], group, {tp: Committed(40)})
    flow.until(lambda: is_moved_to(40))
    before = on_target()
    with flow.context.acting["metadata"]:  # as a round whose target is slow
        early = run("hold", file, "dr-1", "--wait", 4)
    operator("hold", "dr-2")
    commit(clusters[0], group, {tp: Committed(60)})
    change_topic(source, topic_name, {"retention.ms": "86400001"})
    delete_topic(clusters[0], gone)
    create_topic(clusters[0].bootstrap, later, 1)
    source.create_partitions({topic_name: 2})
    new = {TopicPartition(topic_name, 1), TopicPartition(later, 0)}
    flow.until(lambda: new <= flow.context.metrics.look().copying.paused)
    rounds()
    while_held = on_target()
    undone = operator("undo", 1)
    operator("release", "dr-2")
    flow.until(lambda: f"A.{later}" in target.topic_names())
    flow.until(lambda: is_moved_to(60))
    flow.until(lambda: f"A.{gone}" not in target.topic_names())
    flow.stop()

    assert early.exit_code == NoAnswerError.exit_code, "it is made, and not in force yet"
    assert before[0] == {f"A.{topic_name}": 1, f"A.{gone}": 1}
    assert while_held == before
    assert "is held by dr-2: once that has ended" in undone.output
    partitions, kept, moved, told = on_target()
    assert partitions == {f"A.{topic_name}": 2, f"A.{later}": 1}
    assert (kept, moved) == ("86400001", {remote: Committed(60)})
    assert told == {(group, 0): (60, 60, "")}


def test_what_was_changed_holds_from_the_next_start_on(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    first, other = f"{topic_name}-a", f"{topic_name}-b"
    for topic in (first, other):
        fill(clusters[0], topic, 1, 10)
    file = write_config(tmp_path, clusters, first)
    operator = Operator(file)
    config = flow_config(*clusters, first)

    refused = [
        run("pause", file, "--topic", f"{first}x"),
        run("limit", file, "--topic", f"{first}x", "--records", 5000),
    ]
    misspelled = [
        *refused,
        operator("pause", "--topic", f"{first}x", "--anyway", "--dry-run"),
        operator("topics", "--exclude", f"{first}x", "--dry-run"),
    ]
    kept = operator("topics", "--add", other)
    operator("pause", "--topic", first)
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    while_paused = flow_ends(clusters, first), copied(clusters, other)
    operator("resume", "--topic", first)
    operator("pause")
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    while_all = flow_ends(clusters, first)
    operator("resume")
    operator("hold", "dr-1")
    with pytest.raises(GuardError, match=r"held by dr-1: .* release FILE --flow 'A->B' dr-1"):
        RunningFlow(spark, tmp_path / "state", config, "drain").join()
    while_held = flow_ends(clusters, first)
    operator("release", "dr-1")
    RunningFlow(spark, tmp_path / "state", config, "drain").join()

    assert all(f"did you mean '{first}'?" in each.output for each in misspelled), misspelled
    assert [each.exit_code for each in refused] == [2, 2]
    assert "kept: no process runs A->B" in kept.output
    assert while_paused == (0, 10)
    assert (while_all, while_held) == (0, 0)
    assert_equal(clusters, first, other)


def flow_ends(clusters: Clusters, topic: str) -> int:
    """How many records a remote topic has that may not exist."""
    try:
        return copied(clusters, topic)
    except Exception:  # noqa: BLE001 - whatever the client says of it
        return 0


def test_a_pause_near_the_retention_is_said_before_and_while_it_lasts(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source = clusters[0]
    create_topic(source.bootstrap, topic_name, 1, {"retention.ms": str(100 * DAY_MS)})
    old = plain_records(1, size_bytes=20, now_ms=now_ms() - 95 * DAY_MS)
    send_records(source, topic_name, islice(old, 10))
    operator = Operator(write_config(tmp_path, clusters, topic_name))
    config = flow_config(*clusters, topic_name)
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    send_records(source, topic_name, islice(old, 10))

    paused = operator("pause", "--topic", topic_name)
    flow = RunningFlow(spark, tmp_path / "state", config, "drain")
    flow.join()
    operator("undo", 1)
    RunningFlow(spark, tmp_path / "state", config, "drain").join()

    assert f"{topic_name}-0 is at risk: records from its next offset 10 to 20" in paused.output
    assert "paused-at-risk" in kinds(flow.tables)
    assert_equal(clusters, topic_name)
