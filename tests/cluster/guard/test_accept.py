"""``replication accept``: an operator lets a refused topic go on, once."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.workload import create_topic
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun
from replication.state.requests import pending_acceptances
from tests.support.events import kinds, kinds_of_topics
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.numbered import numbered
from tests.support.offset_tables import write_offset_map
from tests.support.requests import channel
from tests.support.stored import stored
from tests.support.topics import (
    assert_equal,
    copied,
    delete_records,
    delete_topic,
    fill,
    now_ms,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def accept(file: Path, topic: str, *more: str) -> Result:
    arguments = ["accept", str(file), "--flow", str(FLOW), "--topic", topic, *more]
    return CliRunner().invoke(main, arguments)


def test_a_running_flow_goes_on_with_a_topic_that_an_operator_accepts(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    expired, state = f"{topic_name}-expired", tmp_path / "state"
    file = write_config(tmp_path, clusters, f"{topic_name}.*")
    config = flow_config(source, target, f"{topic_name}.*")
    fill(source, topic_name, 1, 10)
    fill(source, expired, 2, 200)
    RunningFlow(spark, state, config, "drain").join()
    send(source, topic_name, 1, 10)
    send(source, expired, 2, 200)
    delete_records(source, expired, 150)
    slow = flow_config(
        source, target, f"{topic_name}.*", {"refresh.topics.interval.seconds": "600"}
    )
    flow = RunningFlow(spark, state, slow, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) == 20)

    dry = accept(file, expired, "--from", "earliest", "--json")
    while_dry = pending_acceptances(channel(state.as_uri()), FLOW)
    done = accept(file, expired, "--from", "earliest", "--execute")
    flow.until(lambda: copied(clusters, expired) == 350, 20)  # the refresh is far away
    flow.until(lambda: ("rejoined", expired) in kinds_of_topics(flow.tables))
    flow.stop()

    assert (dry.exit_code, done.exit_code) == (0, 0), dry.output + done.output
    assert json.loads(dry.stdout) == {
        "execute": False,
        "topic": expired,
        "partitions": [
            {
                "partition": 0,
                "cause": "records-expired",
                "from": 150,
                "target_offset": 100,
                "lost": [100, 150],
                "repeated": None,
                "unknown": None,
            }
        ],
        "still_refused": [],
    }
    assert while_dry == {}
    assert done.stdout.splitlines()[-1] == "accepted"
    assert_equal(clusters, topic_name)
    assert flow.context.metrics.look().copying.records == {topic_name: 10, expired: 150}
    assert kinds(flow.tables) == ["set-aside", "requested", "jumped", "rejoined"]
    (event,) = stored(flow.tables, "events", "kind = 'jumped'")
    assert (event.reaction, event.offset_from, event.offset_until) == ("accept", 100, 150)
    assert pending_acceptances(channel(state.as_uri()), FLOW) == {}


def test_the_next_start_uses_an_acceptance_once(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    state, config = tmp_path / "state", flow_config(source, target, topic_name)
    file = write_config(tmp_path, clusters, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, state, config, "drain").join()
    delete_topic(source, topic_name)
    fill(source, topic_name, 1, 30)

    done = accept(file, topic_name, "--partition", "0", "--from", "20", "--execute")
    shown = CliRunner().invoke(main, ["plan", str(file), "--json"])
    flow = RunningFlow(spark, state, config, "drain")
    flow.join()
    after_first = copied(clusters, topic_name)
    delete_topic(source, topic_name)
    fill(source, topic_name, 1, 30)
    with pytest.raises(GuardError, match="was deleted and created again"):
        RunningFlow(spark, state, config, "drain").join()

    assert done.exit_code == 0, done.output
    (planned,) = json.loads(shown.stdout)["flows"][0]["topics"][0]["partitions"]
    assert (planned["offset"], planned["origin"]) == (20, "decision")
    assert (after_first, copied(clusters, topic_name)) == (110, 110)
    # the first of them was tried alone, because the target might have rejected it
    assert flow.context.metrics.look().copying.records == {topic_name: 10}
    assert kinds(flow.tables) == ["requested", "jumped", "refused"]


def test_copies_that_the_target_may_delete_are_accepted_once_and_for_all(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    state, config = tmp_path / "state", flow_config(source, target, topic_name)
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {"retention.ms": "1000000"})
    hour_ago = now_ms() - 3_600_000
    send_records(source, topic_name, numbered(0, 100, timestamp_ms=hour_ago))
    shown = CliRunner().invoke(main, ["plan", str(file)])
    with pytest.raises(GuardError, match="--partition 0 --from 0"):
        RunningFlow(spark, state, config, "drain").join()

    done = accept(file, topic_name, "--from", "0", "--execute")
    RunningFlow(spark, state, config, "drain").join()
    send_records(source, topic_name, numbered(100, 150, timestamp_ms=hour_ago))
    RunningFlow(spark, state, config, "drain").join()

    assert shown.exit_code == 5
    assert "source offsets 0 to 99, which are older" in " ".join(shown.output.split())
    assert done.exit_code == 0, done.output
    assert "0 to 99 are copied, and the target may" in " ".join(done.stdout.split())
    assert copied(clusters, topic_name) == 150


def test_only_what_the_guard_refuses_can_be_accepted(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    state, file = tmp_path / "state", write_config(tmp_path, clusters, topic_name)
    fill(source, topic_name, 2, 400)
    fill(target, f"A.{topic_name}", 2, 200)
    with Cluster("A", {"bootstrap.servers": source.bootstrap}) as cluster:
        topic_id = cluster.describe([topic_name])[topic_name].topic_id
    copied_records = [OffsetRun(0, 100, 0, 100)]
    tps = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    write_offset_map(state, FLOW, dict.fromkeys(tps, copied_records), topic_id)

    healthy = accept(file, topic_name, "--from", "earliest", "--execute")
    delete_records(source, topic_name, 150)
    other = accept(file, topic_name, "--partition", "1", "--from", "latest", "--execute")
    gone = accept(file, topic_name, "--from", "149", "--execute")
    unknown = accept(file, "nothing", "--from", "0", "--execute")
    wrong = accept(file, topic_name, "--from", "-1", "--execute")
    nothing_yet = pending_acceptances(channel(state.as_uri()), FLOW)
    shown = accept(file, topic_name, "--from", "160", "--execute")

    assert (healthy.exit_code, other.exit_code) == (8, 8)
    assert healthy.stderr.startswith(f"{topic_name}: there is nothing to accept")
    assert gone.exit_code == 8
    assert "offset 149 was accepted, but the source has offsets 150 to 200" in gone.stderr
    assert (unknown.exit_code, wrong.exit_code) == (8, 2)
    assert "write an offset, earliest or latest" in wrong.stderr
    assert nothing_yet == {}
    assert shown.exit_code == 0
    assert "source offsets 100 to 159 are not copied" in shown.stdout
    pending = pending_acceptances(channel(state.as_uri()), FLOW)
    assert list(pending) == [TopicPartition(topic_name, 0)]
