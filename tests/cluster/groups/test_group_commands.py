"""The commands for groups show positions, and commit the offsets of a file all or none."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.workload import create_topic
from replication.flows.checkpoints import Checkpoints
from replication.model import Committed, TopicPartition
from tests.support.checkpoints import config_of, emitted, replicated
from tests.support.cli import ok, run
from tests.support.commands import replication
from tests.support.failover import PARTITIONS, drain, send, table
from tests.support.groups import commit, committed
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import delete_records, delete_topic, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

OFF = "sync.group.offsets.enabled is false"


def test_the_table_of_groups(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 300)
    commit(source, group, {tp: Committed(40)})
    drain(spark, clusters, tmp_path, topic_name)
    send(source, topic_name, 30)
    commit(source, f"{group}-ahead", {tp: Committed(110)})
    commit(target, group, {TopicPartition(f"A.{topic_name}", 0): Committed(7)})

    lines = table(file, group).splitlines()
    printed = replication("groups", file, "--flow", "A->B", "--group", group, "--json")

    cells = [re.split(r" *[│|] *", line.strip(" │|")) for line in lines if group in line]
    ahead = "ahead of replication; at most 10 records may be read again"
    assert cells == [
        [group, f"{topic_name}-0", "40", "70", "40", "exact", "7 empty", "off"],
        [f"{group}-ahead", f"{topic_name}-0", "110", "0", "100", ahead, "- no such group", "off"],
    ]
    unread = f"group {group} has committed no offset on A in {topic_name}-1, {topic_name}-2: "
    assert (printed.returncode, printed.stderr.count("\n")) == (0, 1)  # no warning of Java's
    assert printed.stderr.startswith(unread)
    assert json.loads(printed.stdout) == {
        "flow": "A->B",
        "groups": [
            {
                "group": group,
                "topic": topic_name,
                "remote_topic": f"A.{topic_name}",
                "partition": 0,
                "source": {"committed": 40, "lag": 70},
                "translated": {"offset": 40, "quality": "exact", "reread": 0, "text": "exact"},
                "target": {"committed": 7, "state": "EMPTY"},
                "sync": {"code": "off", "text": OFF},
            }
        ],
        "problems": [printed.stderr.rstrip("\n")],
    }


def test_a_group_of_a_topic_that_was_created_again_is_named_and_has_no_offset(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Its offset means another record than that of the offset map."""
    source, _ = clusters
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 300)
    drain(spark, clusters, tmp_path, topic_name)
    delete_topic(source, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 30)
    commit(source, group, {tp: Committed(5)})

    (shown,) = json.loads(ok(run("groups", file, "--group", group, "--json")).stdout)["groups"]
    exported = run("export-offsets", file, "--group", group, "--json")

    assert shown["translated"]["offset"] is None
    assert shown["sync"]["code"] == "no-offset"
    assert "deleted or created again" in shown["sync"]["text"]
    found = json.loads(exported.stdout)
    assert found["offsets"] == []
    assert f"group {group} on {tp}: offset 5 has no answer" in "".join(found["problems"])


def test_a_group_before_the_map_gets_the_earliest_copy_and_one_without_a_commit_is_named(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, _ = clusters
    file, config = write_config(tmp_path, clusters, topic_name), config_of(clusters, topic_name)
    far, behind, silent = (f"g-{topic_name}-{name}" for name in ("far", "late", "none"))
    fill(source, topic_name, 1, 300)
    delete_records(source, topic_name, before=100)
    replicated(spark, tmp_path / "state", config)
    for group, offset in ((far, 40), (behind, 250)):
        commit(source, group, {TopicPartition(topic_name, 0): Committed(offset)})
    flow = ("--flow", "A->B", "--group", f"g-{topic_name}.*", "--json")

    def translated() -> list[tuple[str, int, int, int]]:
        found = json.loads(ok(run("groups", file, *flow)).stdout)["groups"]
        answers = ((each["group"], each["translated"]) for each in found)
        return [(g, a["offset"], a["reread"], a.get("never_copied", 0)) for g, a in answers]

    assert translated() == [(far, 0, 0, 60), (behind, 150, 0, 0)]
    shutil.rmtree(tmp_path / "state")
    context = replicated(spark, tmp_path / "state", config)
    Checkpoints(context).round(at_once=True)
    settings = {"bootstrap.servers": source.bootstrap, "group.id": silent}
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([topic_name])
        while not consumer.assignment():
            consumer.poll(0.1)
        exported = json.loads(ok(run("export-offsets", file, *flow)).stdout)
    one = ("--topic", topic_name, "--partition", "0", "--offset", "250")
    asked = ok(run("translate", file, "--flow", "A->B", *one)).stdout

    assert translated() == [(far, 0, 200, 60), (behind, 0, 200, 0)]
    assert emitted(context) == {(far, 0): (40, 0, ""), (behind, 0): (250, 0, "")}
    assert [each["offset"] for each in exported["offsets"]] == [0, 0]
    unread = "200 records may be read again, 60 records were never copied"
    assert f"group {far} on {topic_name}-0: offset 40 " in "".join(exported["problems"])
    assert unread in "".join(exported["problems"])
    assert f"group {silent} has committed no offset on A" in "".join(exported["problems"])
    assert asked == "0 at most 200 records may be read again\n"


def test_offsets_and_moves_as_json(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name} ü☃ ", f"A.{topic_name}"
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 30)
    commit(source, group, {TopicPartition(topic_name, 1): Committed(4)})
    drain(spark, clusters, tmp_path, topic_name)
    commit(target, group, {TopicPartition(remote, 1): Committed(7)})
    flow = ("--flow", "A->B", "--group", group)

    over = json.loads(ok(run("export-offsets", file, *flow, "--json")).stdout)
    back = json.loads(ok(run("failback", file, *flow, "--json")).stdout)
    # a file is UTF-8, whatever the terminal knows
    piped = CliRunner(charset="latin-1").invoke(main, ["export-offsets", str(file), *flow])
    offsets.write_bytes(ok(piped).stdout_bytes)
    apply = ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--json"))

    on_target = {"group": group, "topic": remote, "partition": 1, "offset": 4}
    on_source = {"group": group, "topic": topic_name, "partition": 1, "offset": 7}
    assert f"{remote}-1: it moves back from offset 7 to 4, and reads up to 3 " in apply.stderr
    assert over["offsets"] == [on_target]
    assert [each[: each.index(":")] for each in over["problems"]] == [
        f"group {group} has committed no offset on A in {topic_name}-0, {topic_name}-2"
    ]
    assert back == {"cluster": "A", "offsets": [on_source], "problems": []}
    assert json.loads(apply.stdout) == {
        "cluster": "B",
        "execute": False,
        "moves": [{**on_target, "current": 7, "state": "EMPTY", "blocked": False}],
    }


@pytest.mark.usefixtures("spark")
def test_nothing_is_committed_while_one_of_the_groups_has_members(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(clusters[1].bootstrap, topic_name, 1)
    idle, busy = f"{topic_name}-a-idle", f"{topic_name}-busy"
    offsets.write_text(f"{idle},{topic_name},0,0\n{busy},{topic_name},0,0\n")
    settings = {
        "bootstrap.servers": clusters[1].bootstrap,
        "group.id": busy,
        "client.id": "busy-bee",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic_name])
        while not consumer.assignment():
            consumer.poll(0.1)
        refused = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute")

    assert refused.exit_code == 2
    assert f"{busy}: busy-bee at" in refused.stderr
    assert committed(clusters[1], idle) == {}


@pytest.mark.usefixtures("spark")
def test_offsets_that_the_cluster_does_not_have_are_not_committed(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(clusters[1].bootstrap, topic_name, 1)
    group = f"g-{topic_name}"
    lines = (f"{topic_name},0,0", f"{topic_name},1,0", f"{topic_name}-none,0,0")
    offsets.write_text("\ufeff" + "".join(f"{group},{line}\n" for line in lines))
    beyond = tmp_path / "beyond.csv"
    beyond.write_text(f"{group},{topic_name},0,1\n")

    refused = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute")
    also = run("apply-offsets", file, "--cluster", "B", "--offsets", beyond, "--execute")

    assert (refused.exit_code, also.exit_code) == (2, 2)
    assert refused.stderr.splitlines()[1:] == [
        f"  - {topic_name}-none: no such topic on B",
        f"  - group {group}, {topic_name}-1: the topic has 1 partitions",
    ]
    assert f"group {group}, {topic_name}-0: offset 1 is beyond the log's end, 0" in also.stderr
    assert committed(clusters[1], group) == {}


def test_a_wrong_file_or_cluster_is_refused_with_every_problem(
    clusters: Clusters, tmp_path: Path
) -> None:
    file, offsets = write_config(tmp_path, clusters, "x"), tmp_path / "offsets.csv"
    offsets.write_text("g,t,0\ng,t,zero,1\n")

    wrong = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets)
    nobody = run("apply-offsets", file, "--cluster", "C", "--offsets", write_valid(tmp_path))
    missing = run("apply-offsets", file, "--cluster", "B", "--offsets", tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"gr\xfcn,t,0,1\n")
    latin = run("apply-offsets", file, "--cluster", "B", "--offsets", tmp_path / "latin.csv")

    assert latin.exit_code == 2
    assert "byte 2: not UTF-8" in latin.stderr
    assert (wrong.exit_code, nobody.exit_code, missing.exit_code) == (2, 2, 2)
    assert "line 1" in wrong.stderr
    assert "line 2" in wrong.stderr
    assert "--cluster 'C': unknown cluster; enabled flows use A, B" in nobody.stderr
    assert "cannot be read: No such file" in missing.stderr


def write_valid(folder: Path) -> Path:
    file = folder / "valid.csv"
    file.write_text("g,t,0,1\n")
    return file
