"""Commands about names that Kafka allows and nobody expects, on real brokers."""

import csv
import json
import time
from pathlib import Path
from typing import Any

import pytest

from replication.config.file import load_config
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.figures.observation import (
    EventRow,
    GroupFigures,
    Observation,
    PartitionFigures,
    TopicFigures,
)
from replication.figures.status_store import Holder
from replication.flows.publisher import FlowPublisher
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.model import Committed, Flow, TopicPartition
from tests.support.cli import ok, run
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config

pytestmark = pytest.mark.cluster

LONGEST = 249
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


@pytest.fixture
def flow() -> Flow:
    """A flow that no other test has."""
    return unique_flow()


def one_object(*command: object) -> dict[str, Any]:
    """What a command prints with ``--json``: one object and nothing else."""
    found = json.loads(ok(run(*command, "--json")).stdout)
    assert isinstance(found, dict)
    return found


def commit(broker: Broker, group: str, offsets: dict[TopicPartition, Committed]) -> None:
    """Commits for a group without members."""
    with Groups(shared_jvm(), "test", {"bootstrap.servers": broker.bootstrap}) as groups:
        groups.commit(group, offsets)


def longest(name: str) -> str:
    """A topic with the longest name that Kafka takes."""
    return f"{name}-".ljust(LONGEST, "x")[:LONGEST]


def test_a_topic_with_the_longest_name(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow
) -> None:
    topic = longest(topic_name)
    create_topic(clusters[0].bootstrap, topic, 1)
    file = write_config(tmp_path, clusters, topic, IDENTITY, flow)

    (planned,) = one_object("plan", file)["flows"]
    found = one_object("doctor", file)

    assert [row["remote_topic"] for row in planned["topics"]] == [topic]
    assert [row for row in found["findings"] if row["verdict"] == "problem"] == []
    ok(run("plan", file))


def test_a_topic_whose_remote_name_is_too_long(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow
) -> None:
    topic = longest(topic_name)
    create_topic(clusters[0].bootstrap, topic, 1)
    file = write_config(tmp_path, clusters, topic, flow=flow)

    found = run("doctor", file, "--json")

    (row, *_) = [row for row in json.loads(found.stdout)["findings"] if row["verdict"] == "problem"]
    assert found.exit_code == run("plan", file).exit_code == 5
    assert f"has {LONGEST + len(flow.source) + 1} characters" in row["found"]
    assert row["next_step"]


def test_groups_of_any_name(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow
) -> None:
    odd = ("a/b c", "[red]r[/red]", "[/closed]", "ü-组", "two\nlines", '"quoted", and more')
    names = sorted(f"{topic_name}-{name}" for name in odd)
    selected = [name for name in names if "\n" not in name]  # as .* does in MirrorMaker 2
    create_topic(clusters[0].bootstrap, topic_name, 1)
    for name in names:
        commit(clusters[0], name, {TopicPartition(topic_name, 0): Committed(0)})
    file = write_config(tmp_path, clusters, topic_name, flow=flow)
    over = tmp_path / "over.csv"

    found = one_object("groups", file)["groups"]
    table = ok(run("groups", file)).stdout
    named = (f"{topic_name}-a/b c", f"{topic_name}-two\nlines")
    asked = [one_object("groups", file, "--group", name)["groups"] for name in named]
    shown = ok(run("groups", file, "--group", named[1])).stdout
    ok(run("export-offsets", file, "--output", over))

    assert sorted(row["group"] for row in found if row["topic"] == topic_name) == selected
    assert [row["group"] for rows in asked for row in rows] == list(named)
    assert len([line for line in table.splitlines() if f"{topic_name}-0" in line]) == len(selected)
    assert f"{topic_name}-two\\nlines" in shown
    with over.open(newline="") as lines:
        assert {row["group"] for row in csv.DictReader(lines)} <= set(names)


def test_what_an_owner_says_of_odd_names(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow
) -> None:
    topic, group = longest(topic_name), "two\nlines\x1b[2J[/closed]"
    file = write_config(tmp_path, clusters, topic, IDENTITY, flow)
    part = PartitionFigures(0, "lagging", {"lag_records": 7.0, "position": 1.0})
    said = Observation(
        flow,
        time.time(),
        "running",
        time.time(),
        figures={"lag_records": 7.0},
        topics=(TopicFigures(topic, topic, "lagging", "", {"lag_records": 7.0}, {}, (part,)),),
        groups=(GroupFigures(group, {"group_lag_records": 7.0}, {"none": 1}),),
        events=(EventRow(time.time(), "group-active", group, "retry", {"group": group}),),
    )
    publisher = FlowPublisher(load_config(str(file)).flows[0])
    publisher.publish(said, {"records": Holder(1, "member", "host/A->B/1")})
    publisher.close()

    (status,) = one_object("status", file)["flows"]
    (lag,) = one_object("lag", file)["flows"]
    (event,) = one_object("events", file)["events"]
    shown = [ok(run(name, file)).stdout for name in ("status", "lag", "events")]

    assert [row["group"] for row in status["last_word"]["groups"]] == [group]
    assert [row["topic"] for row in lag["topics"]] == [topic]
    assert event["text"] == group
    assert all(char.isprintable() or char == "\n" for text in shown for char in text)
    assert len(shown[2].splitlines()) == 1
