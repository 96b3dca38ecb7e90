"""``doctor`` finds what was planted on real brokers, and what it prints mends it."""

import json
import re
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from replication.config.file import load_config
from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import HOST, free_port
from replication.demo.workload import create_topic
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import GroupMembers
from replication.state.claim import LeaseName
from tests.support.cli import run
from tests.support.doctored import (
    assert_healthy,
    await_fault,
    look,
    only,
    plant_internal_topic,
)
from tests.support.flows import unique_flow
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.topic_settings import alter_topic

pytestmark = pytest.mark.cluster


def test_a_healthy_set_up_gives_no_finding_and_nothing_is_created(
    clusters: Clusters, file: Path
) -> None:
    before = [topics_of(broker.bootstrap) for broker in clusters]

    assert_healthy(file)

    assert [topics_of(broker.bootstrap) for broker in clusters] == before
    assert not (file.parent / "state").exists()
    assert run("doctor", file, "--fix-commands").exit_code == 0


def test_factors_beyond_the_brokers_are_found_by_doctor_and_plan(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    defaults = dict.fromkeys(REPLICATION_FACTORS, 3)
    file = write_config(tmp_path, clusters, topic_name, defaults, flow)

    code, rows = look(file)
    plan = run("plan", file)

    problems = [row for row in rows if row["verdict"] == "problem"]
    assert code == plan.exit_code == 5
    assert problems[0]["found"].startswith(f"cluster {flow.target} has 1 broker(s), fewer than ")
    assert re.search(r"1 topic and \d internal topics", problems[0]["what"])
    lines = problems[0]["next_step"].removeprefix("write in the file: ").split(", ")
    assert {"replication.factor: 1", "checkpoints.topic.replication.factor: 1"} <= set(lines)
    assert problems[-1]["found"] == "none of 1 would be replicated: each is set aside"
    assert "checkpoints.topic.replication.factor: 1" in plan.stderr
    assert topic_name not in str(topics_of(clusters[1].bootstrap))

    assert_healthy(write_config(tmp_path, clusters, topic_name, flow=flow))


@pytest.mark.parametrize(
    ("server", "found", "step"),
    [
        (f"{HOST}:{{port}}", "connection refused", "check that a broker listens there"),
        ("no-such-host.invalid:9092", "unknown host", "correct the host name in"),
    ],
)
def test_a_cluster_of_which_no_address_answers(
    clusters: Clusters, tmp_path: Path, topic_name: str, server: str, found: str, step: str
) -> None:
    flow = unique_flow()
    wrong = {flow.source: {"bootstrap.servers": server.format(port=free_port())}}

    code, rows = look(write_config(tmp_path, clusters, topic_name, wrong, flow))

    addresses = only([row for row in rows if row["verdict"] == "problem"])
    assert code == 3
    assert found in addresses["found"]
    assert step in addresses["next_step"]
    unknown = {row["what"] for row in rows if row["verdict"] == "unknown"}
    assert {f"login to {flow.source}", f"topics of {flow}"} <= unknown


def test_one_of_several_addresses_is_dead(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    servers = f"{clusters[0].bootstrap},{HOST}:{free_port()}"
    more = {flow.source: {"bootstrap.servers": servers}}

    code, rows = look(write_config(tmp_path, clusters, topic_name, more, flow))

    assert code == 0
    assert only(rows)["verdict"] == "warning"


def test_source_and_target_are_one_cluster(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    same = (clusters[0], clusters[0])

    code, rows = look(write_config(tmp_path, same, topic_name, flow=unique_flow()))

    assert code == 5
    assert "are the same Kafka cluster" in str(rows)


def test_the_file_names_another_cluster(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    more = {f"{flow}.replication.source.cluster.id": "of-another-cluster"}

    code, rows = look(write_config(tmp_path, clusters, topic_name, more, flow))

    assert code == 2
    assert "of-another-cluster" in only(rows)["found"]


@pytest.mark.parametrize(
    ("key", "large", "small"),
    [("max.message.bytes", "2000000", "1000"), ("retention.ms", "800000000", "1000")],
)
def test_a_remote_topic_that_takes_or_keeps_less(
    clusters: Clusters, file: Path, topic_name: str, key: str, large: str, small: str
) -> None:
    flow = load_config(str(file)).flows[0].flow
    remote = f"{flow.source}.{topic_name}"
    create_topic(clusters[1].bootstrap, remote, 1)
    alter_topic(clusters[0], topic_name, key, large)
    alter_topic(clusters[1], remote, key, small)

    code, rows = look(file)

    assert code == 0
    assert f"{key}={small}" in only(rows)["found"]
    alter_topic(clusters[1], remote, key, large)
    assert_healthy(file)


def test_an_internal_topic_that_its_cluster_empties(clusters: Clusters, file: Path) -> None:
    name = plant_internal_topic(file, clusters[1], 1, "delete")

    code, rows = look(file)

    line = (
        f"kafka-configs --bootstrap-server {clusters[1].bootstrap} --alter --entity-type topics "
        f"--entity-name {name} --add-config cleanup.policy=compact"
    )
    assert code == 0
    assert only(rows)["commands"] == [line]
    assert line in run("doctor", file, "--fix-commands").stdout.splitlines()
    alter_topic(clusters[1], name, "cleanup.policy", "compact")
    assert_healthy(file)


def test_a_topic_of_dead_letters_is_planned_and_must_not_be_compacted(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow, dead = unique_flow(), f"dead-{topic_name}"
    settings = {"replication.dead.letters": "topic", "replication.dead.letters.topic": dead}
    file = write_config(tmp_path, clusters, topic_name, settings, flow)
    assert_healthy(file)
    (planned,) = json.loads(run("plan", file, "--json").stdout)["flows"]
    (internal,) = [one for one in planned["internal_topics"] if one["name"] == dead]
    assert internal == {
        "name": dead, "cluster": flow.target, "purpose": "dead letters", "exists": False
    }  # fmt: skip
    create_topic(clusters[1].bootstrap, dead, 2, {"cleanup.policy": "compact"})

    code, rows = await_fault(file)

    assert code == 0
    (line,) = only(rows)["commands"]
    assert line.endswith(f"--entity-name {dead} --add-config cleanup.policy=delete")
    alter_topic(clusters[1], dead, "cleanup.policy", "delete")
    assert_healthy(file)


def test_lists_that_select_nothing(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    code, rows = look(write_config(tmp_path, clusters, topic_name, flow=unique_flow()))

    assert code == 0
    assert {row["verdict"] for row in rows} == {"warning"}
    assert "the lists of the flow select no topic" in [row["found"] for row in rows]
    create_topic(clusters[0].bootstrap, topic_name, 1)
    assert_healthy(tmp_path / "mirror.yaml")


def test_a_port_that_is_taken(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        more = {"metrics.port": port, "metrics.listen": HOST}
        file = write_config(tmp_path, clusters, topic_name, more, unique_flow())

        code, rows = look(file)

        assert code == 0
        assert only(rows)["what"] == f"metrics.port {port}"
    assert_healthy(file)


def test_one_port_for_two(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    port = free_port()
    more = {"metrics.port": port, "rest.port": port}

    _, rows = look(write_config(tmp_path, clusters, topic_name, more, unique_flow()))

    assert only(rows)["found"] == f"metrics.port and rest.port are both {port}"


def test_a_state_dir_that_is_a_file(file: Path) -> None:
    assert_healthy(file)
    (file.parent / "state").write_text("not a folder")

    code, rows = look(file)

    assert code == 2
    assert "is a file" in str(rows)


def test_a_heap_that_is_too_small(
    clusters: Clusters, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 40)
    more = {"replication.source": "spark"}  # a consumer for each partition
    file = write_config(tmp_path, clusters, topic_name, more, unique_flow())
    monkeypatch.setenv("DRIVER_MEMORY", "100m")

    _, rows = look(file)

    assert "DRIVER_MEMORY=160m" in only(rows)["next_step"]
    monkeypatch.setenv("DRIVER_MEMORY", "160m")
    assert_healthy(file)


def test_a_lease_that_another_process_holds(
    clusters: Clusters, file: Path, topic_name: str, until: Until
) -> None:
    flow = load_config(str(file)).flows[0].flow
    other = Consumer(
        {
            "bootstrap.servers": clusters[1].bootstrap,
            "group.id": LeaseName(flow).group,
            "group.instance.id": "other",
            "session.timeout.ms": 6000,
        }
    )
    create_topic(clusters[1].bootstrap, f"{topic_name}-read", 1)
    other.subscribe([f"{topic_name}-read"])
    servers = {"bootstrap.servers": clusters[1].bootstrap}
    group = LeaseName(flow).group

    with GroupMembers("B", servers) as coordinator:

        def has_joined() -> bool:
            other.poll(0.1)
            return bool(coordinator.of([group])[group])

        until(has_joined, 60)

    code, rows = look(file)
    other.close()

    assert code == 0
    assert "held by a process that does not run here" in only(rows)["found"]
    assert_healthy(file)  # a member with a name of its own is missed first, after 6 s


def topics_of(servers: str) -> set[str]:
    """The names of a cluster's topics but for those that a broker makes when it is first asked."""
    with Cluster("any", {"bootstrap.servers": servers}) as cluster:
        return {name for name in cluster.topic_names() if not name.startswith("__")}
