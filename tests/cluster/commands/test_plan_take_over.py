"""The plan names the positions that a first start would take over from MirrorMaker 2."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from replication.cli.main import main
from replication.demo.brokers import Broker
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import delete_records, fill

pytestmark = pytest.mark.cluster


def store(broker: Broker, topic: str, last_copied: dict[str, int]) -> None:
    """Writes the positions of partition 0 of topics as MirrorMaker 2's worker does."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for name, offset in last_copied.items():
        where = {"cluster": "A", "partition": 0, "topic": name}
        key = json.dumps(["MirrorSourceConnector", where])
        producer.produce(topic, key=key, value=json.dumps({"offset": offset}), partition=0)
    assert producer.flush(30) == 0


def test_the_plan_names_each_position_and_where_it_comes_from(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    emptied, kept, unknown, gone = (f"{topic_name}-{it}" for it in ("1", "2", "3", "4"))
    for name in (emptied, kept, unknown, gone):
        fill(source, name, 1, 10)
        fill(target, f"A.{name}", 1, 5)
    delete_records(target, f"A.{emptied}", 5)
    stored = f"mm2-offsets.{topic_name}.internal"
    fill(target, stored, 1, 0)
    store(target, stored, {emptied: 6, kept: 7, gone: 99})
    more = {"replication.takeover.topic": stored}
    config = write_config(tmp_path, clusters, f"{topic_name}-.*", more)

    shown = CliRunner().invoke(main, ["plan", str(config), "--json"])

    assert shown.exit_code == 0, shown.output
    (flow,) = json.loads(shown.stdout)["flows"]
    starts = [topic["partitions"][0] for topic in flow["topics"]]
    says = f"{stored} says that MirrorMaker 2 has copied"
    newest = "after the newest record of the target"
    assert [(start["offset"], start["origin"], start["reason"]) for start in starts] == [
        (7, "taken over", f"{says} {emptied}-0 up to offset 6, resuming after it"),
        (
            None,
            "target",
            (
                f"{newest}; if the source lacks it, at offset 8: {says} {kept}-0 up to offset 7, "
                "resuming after it"
            ),
        ),
        (None, "target", newest),
        (None, "target", newest),
    ]
    refused = f"{says} {gone}-0 up to offset 99, but A has no offset 100: not taken over"
    assert refused in flow["warnings"]


def test_the_plan_says_that_there_are_no_positions(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 10)
    fill(clusters[1], f"A.{topic_name}", 1, 5)
    more = {"replication.takeover.topic": "mm2-offsets.misspelt.internal"}

    shown = CliRunner().invoke(
        main, ["plan", str(write_config(tmp_path, clusters, topic_name, more))]
    )

    assert "no topic mm2-offsets.misspelt.internal on B" in shown.output
