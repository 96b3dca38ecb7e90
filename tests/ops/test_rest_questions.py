"""What REST asks clusters and tables for: the answers are those of the commands, and of now."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import Committed, TopicPartition
from replication.serve.snapshots import FlowSnapshot
from replication.state.locks import hold_jobs
from tests.support.flows import RunningFlow, flow_config
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.serving import Served, observed, serving_file
from tests.support.topics import copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

SELDOM = {"state.write.interval.seconds": "600"}
AT = "/api/v1/flows/A/B"


def test_whoever_runs_the_flow_writes_its_map_before_an_answer(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group = f"{topic_name}/grün"
    file = write_config(tmp_path, clusters, topic_name, {"rest.port": 0})
    fill(clusters[0], topic_name, 1, 100)
    config = flow_config(*clusters, topic_name, SELDOM)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) >= 100)
    commit(clusters[0], group, {TopicPartition(topic_name, 0): Committed(60)})

    def translated(served: Served) -> object:
        return served.ask(f"{AT}/translate?topic={topic_name}&partition=0&offset=60").json

    with serving_file(file, lambda name: FlowSnapshot(name, observed())) as served:
        nobody = translated(served)  # no process has the flow, as far as its lock tells
        with hold_jobs(flow.tables.root, [config.flow], "mirror"):
            flow.until(lambda: translated(served) == exact(topic_name))
            page = served.ask(f"{AT}/groups/{topic_name}%2Fgr%C3%BCn")
            shown = served.ask(f"/flows/A/B/groups/{topic_name}%2Fgr%C3%BCn")
            flow.stop()
            late = translated(served)

    assert nobody != exact(topic_name)
    assert page.status == 200, page.text
    (row,) = page.json["items"]
    assert (row["group"], row["source"]) == (group, {"committed": 60, "lag": 40, "state": None})
    assert row["translated"]["offset"] == 60
    assert row["sync"]["code"] == "off"
    assert page.json["problems"] == []
    assert "sync.group.offsets.enabled is false" in shown.text
    assert "resumes at the next record in 1 of 1 partition" in shown.text
    assert isinstance(late, dict)
    (problem,) = late["problems"]
    assert "has not written its offset map within 10 s" in problem


def exact(topic: str) -> dict[str, object]:
    """The answer to the question about offset 60."""
    return {
        "flow": "A->B",
        "topic": topic,
        "remote_topic": f"A.{topic}",
        "partition": 0,
        "back": False,
        "from_offset": 60,
        "to": {"offset": 60, "quality": "exact", "reread": 0, "text": "exact"},
        "problems": [],
    }
