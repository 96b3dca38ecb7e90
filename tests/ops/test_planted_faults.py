"""``doctor`` finds faults of brokers, files and machines, and what it prints mends them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import HOST, BrokerSettings, free_port, running
from replication.demo.workload import create_topic
from replication.kafka.cluster import Cluster
from tests.support.cli import run
from tests.support.doctored import (
    assert_healthy,
    look,
    look_from,
    only,
    plant_internal_topic,
    problem,
    start_from,
)
from tests.support.flows import unique_flow
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.proxy import broker_with_listener
from tests.support.s3 import BUCKET, s3_server
from tests.support.topic_settings import alter_topic
from tests.support.two_brokers import create_movable_topic, keep_groups_on, two_brokers

pytestmark = pytest.mark.cluster


def test_an_advertised_address_that_leads_nowhere(
    broker_settings: BrokerSettings, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    second, nowhere = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
    wrong, right = (  # its first listener tells the test that it has started
        broker_with_listener("A", tmp_path / "A", broker_settings, second, advertised)
        for advertised in (nowhere, second)
    )
    right.cluster_id = wrong.cluster_id
    flow = unique_flow()
    by_second = {flow.source: {"bootstrap.servers": second}}
    with running(wrong):
        file = write_config(tmp_path, (wrong, clusters[1]), topic_name, by_second, flow)

        code, rows = look(file)

        brokers = only([row for row in rows if row["what"] == f"brokers of {flow.source}"])
        assert code == 3
        assert "cannot be reached as the cluster advertises them" in brokers["found"]
        assert "correct advertised.listeners of the brokers" in brokers["next_step"]
        assert f"clock of {flow.source}" not in {row["what"] for row in rows}
    with running(right):
        create_topic(right.bootstrap, topic_name, 1)
        assert_healthy(file)


def test_too_few_replicas_in_sync(
    broker_settings: BrokerSettings,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    remote = f"{flow.source}.{topic_name}"
    with two_brokers(tmp_path / "brokers", broker_settings) as (first, second):
        keep_groups_on(first, 1)  # else one start of two has its lease on the broker that stops
        create_movable_topic(first, remote)
        alter_topic(first, remote, "min.insync.replicas", "2")
        file = write_config(tmp_path, (clusters[0], first), topic_name, flow=flow)
        assert_healthy(file)
        second.stop()
        with Cluster("B", {"bootstrap.servers": first.bootstrap}) as target:
            until(lambda: target.describe([remote])[remote].in_sync == ((1, 2),), 60)

        code, rows = look(file)
        plan = run("plan", file)

        assert code == plan.exit_code == 5
        text = f"topic {remote} on {flow.target} takes no records: min.insync.replicas=2"
        assert problem(rows)["found"].startswith(text)
        assert text in plan.stderr
        line = (
            f"kafka-configs --bootstrap-server {first.bootstrap} --alter --entity-type topics "
            f"--entity-name {remote} --add-config min.insync.replicas=1"
        )
        assert problem(rows)["commands"] == [line]
        alter_topic(first, remote, "min.insync.replicas", "1")
        assert_healthy(file)


def test_an_internal_topic_with_too_many_partitions(clusters: Clusters, file: Path) -> None:
    name = plant_internal_topic(file, clusters[1], 3, "compact")

    code, rows = look(file)

    line = f"kafka-topics --bootstrap-server {clusters[1].bootstrap} --delete --topic {name}"
    assert code == 0
    assert only(rows)["commands"] == [line]
    with Cluster("B", {"bootstrap.servers": clusters[1].bootstrap}) as target:
        target.delete_topic(name)
    assert_healthy(file)


def test_flows_in_a_circle(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    back = f"{flow.target}->{flow.source}"
    circle = {
        back: {"enabled": True, "topics": [topic_name]},
        "replication.policy.class": "IdentityReplicationPolicy",
    }

    code, rows = look(write_config(tmp_path, clusters, topic_name, circle, flow))

    assert code == 2
    assert "circle" in str(problem(rows))
    assert back in str(problem(rows))
    mended = {**circle, back: {"enabled": True, "topics": [f"{topic_name}-of-the-other"]}}
    _, rows = look(write_config(tmp_path, clusters, topic_name, mended, flow))
    assert {row["verdict"] for row in rows} == {"warning"}  # its list selects no topic yet


def test_a_key_that_is_misspelled(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    key = f"{flow}.sync.topic.config.enabled"
    file = write_config(tmp_path, clusters, topic_name, {key: "false"}, flow)

    code, rows = look(file)

    right = f"{flow}.sync.topic.configs.enabled"
    assert code == 2
    assert problem(rows)["what"] == "the file"
    assert problem(rows)["found"] == f"{key}: unknown key"
    assert problem(rows)["next_step"].startswith(f"did you mean {right}?")
    assert_healthy(write_config(tmp_path, clusters, topic_name, {right: "false"}, flow))


def test_a_disk_that_takes_no_more(file: Path) -> None:
    code, rows = look_from(["prlimit", "--fsize=4096"], file)

    assert code == 7
    assert problem(rows)["found"] == "cannot be used: File too large"
    assert "that its disk is well" in problem(rows)["next_step"]
    started = start_from(["prlimit", "--fsize=4096"], file)
    assert started.returncode == 7
    assert "cannot be used: File too large; check that state.dir" in started.stderr
    assert look_from(["prlimit", "--fsize=unlimited"], file) == (0, [])
    assert start_from([], file).returncode == 0


def test_a_state_dir_in_which_nobody_can_write(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow, elsewhere = unique_flow(), {"state.dir": "file:///proc/state-of-the-mirror"}

    code, rows = look(write_config(tmp_path, clusters, topic_name, elsewhere, flow))

    assert code != 0
    assert any("state.dir is writable" in row["next_step"] for row in rows)
    assert_healthy(write_config(tmp_path, clusters, topic_name, flow=flow))


def test_a_storage_that_does_not_answer(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow = unique_flow()
    with s3_server(tmp_path) as settings:
        more = {f"hadoop.{key}": value for key, value in settings.items()}
        more["state.dir"] = f"s3a://{BUCKET}/mirror"
        nobody = {"hadoop.fs.s3a.endpoint": f"http://{HOST}:{free_port()}"}

        code, rows = look(write_config(tmp_path, clusters, topic_name, {**more, **nobody}, flow))

        first = next(row for row in rows if row["verdict"] == "problem")
        assert code == 7
        assert first["what"] == f"state.dir s3a://{BUCKET}/mirror"
        assert "check the address, the credentials" in first["next_step"]
        assert_healthy(write_config(tmp_path, clusters, topic_name, more, flow))


def java_that_says(folder: Path, text: str) -> Path:
    """A JAVA_HOME whose Java only says its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("make", "found"),
    [
        pytest.param(
            lambda folder: java_that_says(folder, 'openjdk version "11.0.2" 2019-01-15'),
            "is Java 11, Spark 4.2 runs on 17 to 25",
            id="too old",
        ),
        pytest.param(lambda folder: folder, "cannot be run", id="missing"),
    ],
)
def test_java(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], Path],
    found: str,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make(tmp_path / "java")))

    code, rows = look_from([], file)

    java = only([row for row in rows if row["what"] == "Java"])
    assert code == 2
    assert found in java["found"]
    assert "install a JDK 17 or 21, or set JAVA_HOME to one" in java["next_step"]
    monkeypatch.delenv("JAVA_HOME")
    assert look_from([], file) == (0, [])


def test_too_few_open_files(clusters: Clusters, tmp_path: Path, topic_name: str) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 40)
    more = {"replication.source": "spark"}  # a consumer for each partition
    file = write_config(tmp_path, clusters, topic_name, more, unique_flow())

    code, rows = look_from(["prlimit", "--nofile=400:400"], file)

    assert code == 2
    assert problem(rows)["what"] == "open files"
    assert "raise the hard limit" in problem(rows)["next_step"]
    assert look_from(["prlimit", "--nofile=2000:2000"], file) == (0, [])


@pytest.mark.parametrize(("mode", "code"), [("realtime", 6), ("auto", 0)])
def test_too_few_slots(
    clusters: Clusters, tmp_path: Path, topic_name: str, mode: str, code: int
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 5)
    more = {"replication.mode": mode, "replication.source": "spark"}  # a slot for each partition
    file = write_config(tmp_path, clusters, topic_name, more, unique_flow())

    end, rows = look(file, "--master", "local[2]")

    assert end == code
    assert only(rows)["what"] == "slots of --master"
    assert "start with MASTER=local[7] or more" in only(rows)["next_step"]
    assert look(file, "--master", "local[7]") == (0, [])


def test_a_factor_of_the_checkpoints_beyond_the_brokers(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    flow, key = unique_flow(), "checkpoints.topic.replication.factor"
    assert key in REPLICATION_FACTORS

    code, rows = look(write_config(tmp_path, clusters, topic_name, {key: 3}, flow))

    assert code == 0
    assert key in only(rows)["next_step"]
    assert_healthy(write_config(tmp_path, clusters, topic_name, {key: 1}, flow))
