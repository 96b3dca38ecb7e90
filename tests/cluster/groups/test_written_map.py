"""A command beside a running flow reads the map of all that was copied before the question."""

import json
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.flows.checkpoints import Checkpoints
from replication.model import Committed, TopicPartition
from replication.offsets.map import Bounded, Exact, OffsetMap, translate
from replication.state.locks import hold_jobs
from replication.state.requests import await_written
from tests.support.checkpoints import emitted
from tests.support.cli import ok, run
from tests.support.flows import RunningFlow, flow_config
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.stored import stored_runs
from tests.support.topics import copied, fill, send_records
from tests.support.transformed import SETTINGS, people

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

SELDOM = {"state.write.interval.seconds": "600"}


def test_the_process_that_runs_the_flow_writes_its_map_first(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    tp = TopicPartition(topic_name, 0)
    fill(clusters[0], topic_name, 1, 100)
    config = flow_config(*clusters, topic_name, SELDOM)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    state_dir = flow.tables.root

    def is_written() -> bool:  # executors report twice a second what they have copied
        assert await_written(state_dir, config.flow) == ""
        return translate(stored_runs(flow.tables, config.flow, tp), 100) == Exact(100)

    flow.until(lambda: copied(clusters, topic_name) >= 100)
    before = translate(stored_runs(flow.tables, config.flow, tp), 100)
    with hold_jobs(state_dir, [config.flow], "mirror"):
        flow.until(is_written)
        flow.stop()
        late = await_written(state_dir, config.flow, patience_seconds=0.5)

    assert before != Exact(100)
    assert "has not written its offset map within 0.5 s" in late
    assert not list((tmp_path / "state" / "_control").glob("write-*"))
    assert await_written(state_dir, config.flow) == ""  # nobody runs it


def test_commands_translate_groups_of_filtered_topics_as_exactly_as_the_process_does(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """The table has a border for each hundred copies, and for each position of a group."""
    tp, committed = TopicPartition(topic_name, 0), (131, 300, 302, 448)
    groups = {"groups": f"g-{topic_name}.*", "state.write.interval.seconds": "1"}
    config = flow_config(*clusters, topic_name, {**SETTINGS, **groups})
    create_topic(clusters[0].bootstrap, topic_name, 1)
    send_records(clusters[0], topic_name, islice(people(1), 700))
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) >= 100)
    flow.until(lambda: OffsetMap(stored_runs(flow.tables, FLOW, tp)).replicated_until >= 694)
    for offset in committed:
        commit(clusters[0], f"g-{topic_name}-{offset}", {tp: Committed(offset)})
    before = [translate(stored_runs(flow.tables, FLOW, tp), offset) for offset in committed]
    Checkpoints(flow.context).round(at_once=True)

    file = write_config(tmp_path, clusters, topic_name)
    options = ("--flow", "A->B", "--group", f"g-{topic_name}.*", "--json")
    with hold_jobs(flow.tables.root, [FLOW], "mirror"):
        shown = json.loads(ok(run("groups", file, *options)).stdout)["groups"]
        exported = json.loads(ok(run("export-offsets", file, *options)).stdout)["offsets"]
    flow.stop()
    runs = stored_runs(flow.tables, FLOW, tp)

    there = [-(-offset // 7) for offset in committed]  # one record of seven is copied
    assert sum(isinstance(answer, Bounded) for answer in before) >= 2
    assert sorted(found[1] for found in emitted(flow.context).values()) == there
    assert [(one["translated"]["offset"], one["translated"]["quality"]) for one in shown] == [
        (offset, "exact") for offset in there
    ]
    assert [one["offset"] for one in exported] == there
    assert [translate(runs, offset) for offset in committed] == list(map(Exact, there))
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    assert copied(clusters, topic_name) == 100
