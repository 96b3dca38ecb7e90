"""The plan names the positions that a first start would take over from MirrorMaker 2."""

import json
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.config.file import load_config
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.errors import GuardError
from tests.support.flows import RunningFlow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.stored import stored
from tests.support.topics import delete_records, fill, plain, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def store(broker: Broker, topic: str, last_copied: dict[str, int]) -> None:
    """Writes the positions of partition 0 of topics as MirrorMaker 2's worker does."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for name, offset in last_copied.items():
        where = {"cluster": "A", "partition": 0, "topic": name}
        key = json.dumps(["MirrorSourceConnector", where])
        producer.produce(topic, key=key, value=json.dumps({"offset": offset}), partition=0)
    assert producer.flush(30) == 0


def test_the_plan_says_where_each_partition_resumes_as_a_start_finds_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    names = [f"{topic_name}-{kind}" for kind in ("copied", "emptied", "other", "gone", "lost")]
    copied, emptied, other, gone, lost = names
    for name in names:
        fill(source, name, 1, 10)
        fill(target, f"A.{name}", 1, 5)  # records of their own, with times of their own
    create_topic(source.bootstrap, f"{topic_name}-whole", 1)
    create_topic(target.bootstrap, f"A.{topic_name}-whole", 1)
    same = list(islice(plain(1), 10))
    send_records(source, f"{topic_name}-whole", same)
    send_records(target, f"A.{topic_name}-whole", same[:4])
    delete_records(target, f"A.{emptied}", 5)
    stored_in = f"mm2-offsets.{topic_name}.internal"
    fill(target, stored_in, 1, 0)
    store(target, stored_in, {copied: 2, emptied: 6, other: 7, gone: 99})
    more = {"replication.takeover.topic": stored_in}
    file = write_config(tmp_path, clusters, f"{topic_name}-.*", more)

    shown = CliRunner().invoke(main, ["plan", str(file), "--json"])
    flow = RunningFlow(spark, tmp_path / "new", load_config(str(file)).flows[0], "drain")
    with pytest.raises(GuardError) as refused:
        flow.join()

    (planned,) = json.loads(shown.stdout)["flows"]
    starts = {topic["topic"]: topic["partitions"][0] for topic in planned["topics"]}
    assert {name: (start["offset"], start["origin"]) for name, start in starts.items()} == {
        copied: (3, "taken over"),
        emptied: (7, "taken over"),
        other: (8, "taken over"),
        gone: (None, "problem"),
        lost: (None, "problem"),
        f"{topic_name}-whole": (4, "target"),
    }
    assert shown.exit_code == 5
    adopted = {event.topic: event for event in stored(flow.tables, "events", "kind = 'adopted'")}
    assert {name: (event.offset_until, event.text) for name, event in adopted.items()} == {
        name: (start["offset"], start["reason"])
        for name, start in starts.items()
        if start["offset"] is not None
    }
    for name in (gone, lost):
        assert starts[name]["reason"] in str(refused.value)
        assert f"{stored_in}, replication.takeover.topic, has no place of {name}-0" in shown.stderr
    (warning,) = (text for text in planned["warnings"] if stored_in in text)
    assert warning.endswith("but A has offsets 0 to 10: not taken over")


def test_the_plan_says_that_there_are_no_positions(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 10)
    fill(clusters[1], f"A.{topic_name}", 1, 5)
    more = {"replication.takeover.topic": "mm2-offsets.misspelt.internal"}

    shown = CliRunner().invoke(
        main, ["plan", str(write_config(tmp_path, clusters, topic_name, more))]
    )

    assert "B shows no topic mm2-offsets.misspelt.internal" in shown.output
