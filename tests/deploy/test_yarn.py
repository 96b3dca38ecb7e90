"""The mirror on YARN with its state on HDFS, submitted by spark-submit.sh as a user does."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replication.demo.topic_log import log_ends
from replication.model import Flow
from replication.state.delta import DeltaReader
from tests.support.flows import unique_flow
from tests.support.hadoop import (
    DRIVER,
    EXECUTOR,
    Clients,
    Hadoop,
    hadoop_clients,
    mini_hadoop,
)
from tests.support.local import PYTHON, REPOSITORY, SCRIPT, Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_copies, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1500)]

PARTITIONS = 2
RECORDS = 300_000
CORES = PARTITIONS + 2
COPY_SECONDS = 240.0
END_SECONDS = 600.0


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with mini_hadoop(tmp_path_factory.mktemp("hadoop")) as cluster:
        yield cluster


@pytest.fixture
def host(hadoop: Hadoop, monkeypatch: pytest.MonkeyPatch) -> Hadoop:
    """The cluster, with the variables of a host that submits to it in this process."""
    for name, value in hadoop.environment.items():
        monkeypatch.setenv(name, value)
    return hadoop


@pytest.fixture
def flow() -> Flow:
    return unique_flow()


@pytest.fixture
def config(host: Hadoop, clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow) -> Path:
    """A configuration with a name of its own, which becomes the application's name."""
    more = {
        "state.dir": f"{host.uri}/{flow.slug}",
        "groups": [topic_name],
        "replication.realtime.batch.seconds": 30,
    }
    written = write_config(tmp_path, clusters, f"{topic_name}.*", more, flow)
    return written.rename(tmp_path / f"{flow.source}.yaml")


def submit(host: Hadoop, config: Path, *arguments: str) -> list[str]:
    return [str(SCRIPT), "--config", str(config), *arguments, "--", *host.arguments(CORES)]


def stop(config: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(PYTHON), "-m", "replication", "stop", str(config), "--timeout", "300"]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, env=os.environ
    )


def end_of(clusters: Clusters, topic: str) -> int:
    return log_ends(clusters[1].bootstrap, [topic]).get(topic, 0)


@pytest.mark.soak
def test_client_mode_survives_the_loss_of_an_executor_and_is_stopped_from_the_host(
    host: Hadoop,
    clusters: Clusters,
    config: Path,
    flow: Flow,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    remote = f"{flow.source}.{topic_name}"
    fill(clusters[0], topic_name, PARTITIONS, RECORDS)
    log = tmp_path / "mirror.log"

    command = submit(host, config, "--mode", "realtime")
    with RunningProcess("mirror", command, log) as job:
        until(job.while_running(lambda: end_of(clusters, remote)), COPY_SECONDS)
        host.kill(EXECUTOR)
        at_kill = end_of(clusters, remote)
        until(job.while_running(lambda: end_of(clusters, remote) >= RECORDS), COPY_SECONDS)
        stopped = stop(config)
        code = job.wait(END_SECONDS)

    assert at_kill < RECORDS, "the copy was over before the executor was killed"
    assert (stopped.returncode, stopped.stdout) == (0, f"{flow} stopped\n"), stopped.stderr
    assert code == 0
    assert "mode=realtime" in log.read_text()
    assert_copies(clusters, {topic_name: remote})


@pytest.mark.soak
def test_cluster_mode_goes_on_in_a_second_attempt_when_the_driver_is_killed(
    host: Hadoop,
    clusters: Clusters,
    config: Path,
    flow: Flow,
    tmp_path: Path,
    topic_name: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOY_MODE", "cluster")
    remote = f"{flow.source}.{topic_name}"
    fill(clusters[0], topic_name, PARTITIONS, RECORDS)
    application = f"mirror-{flow.source}"

    command = submit(host, config, "--mode", "realtime")
    with RunningProcess("mirror", command, tmp_path / "mirror.log") as job:
        until(job.while_running(lambda: end_of(clusters, remote)), COPY_SECONDS)
        host.kill(DRIVER)
        at_kill = end_of(clusters, remote)
        send(clusters[0], topic_name, PARTITIONS, 1000)
        until(job.while_running(lambda: end_of(clusters, remote) >= RECORDS + 1000), COPY_SECONDS)
        stopped = stop(config)
        code = job.wait(END_SECONDS)

    told = host.application(application)
    assert at_kill < RECORDS, "the copy was over before the driver was killed"
    assert stopped.returncode == 0, stopped.stderr
    assert (code, told["finalStatus"]) == (0, "SUCCEEDED"), host.logs()
    assert host.attempts(told) == 2
    assert_copies(clusters, {topic_name: remote})


@pytest.mark.soak
def test_after_the_application_was_killed_the_next_start_goes_on(
    host: Hadoop,
    clusters: Clusters,
    config: Path,
    flow: Flow,
    tmp_path: Path,
    topic_name: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOY_MODE", "cluster")
    remote, application = f"{flow.source}.{topic_name}", f"mirror-{flow.source}"
    fill(clusters[0], topic_name, PARTITIONS, 2 * RECORDS)

    with hadoop_clients() as clients:
        command = submit(host, config, "--mode", "realtime")
        with RunningProcess("mirror", command, tmp_path / "mirror.log") as job:
            until(job.while_running(lambda: end_of(clusters, remote)), COPY_SECONDS)
            clients.kill(host.application(application))
            until(lambda: not host.processes(DRIVER) + host.processes(EXECUTOR), END_SECONDS)
            at_kill, code = end_of(clusters, remote), job.wait(END_SECONDS)
        killed = host.application(application)
        after_the_kill = newest_lease(clients, f"{host.uri}/{flow.slug}", flow, tmp_path / "killed")
        send(clusters[0], topic_name, PARTITIONS, 1000)
        drained = subprocess.run(
            submit(host, config, "--mode", "drain"), capture_output=True, text=True, check=False
        )
        at_the_end = newest_lease(clients, f"{host.uri}/{flow.slug}", flow, tmp_path / "drained")

    assert at_kill < 2 * RECORDS, "the copy was over before the application was killed"
    assert (code, killed["finalStatus"], host.attempts(killed)) == (1, "KILLED", 1)
    assert (after_the_kill["epoch"], after_the_kill["released"]) == (1, False)
    assert drained.returncode == 0, drained.stderr[-3000:] + host.logs()
    assert (at_the_end["epoch"], at_the_end["released"]) == (2, True)
    assert_copies(clusters, {topic_name: remote})


def newest_lease(clients: Clients, uri: str, flow: Flow, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    clients.get(f"{uri}/leases", folder / "leases")
    (row,) = DeltaReader(folder.as_uri()).newest("leases", flow, ["flow"], ["epoch", "renewed"])
    return row


@pytest.mark.soak
def test_a_refused_topic_ends_a_drain_in_cluster_mode_once_with_its_cause(
    host: Hadoop,
    clusters: Clusters,
    config: Path,
    flow: Flow,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOY_MODE", "cluster")
    remote, refused = f"{flow.source}.{topic_name}", f"{topic_name}-refused"
    fill(clusters[0], topic_name, PARTITIONS, 1000)
    fill(clusters[0], refused, 1, 100)
    fill(clusters[1], f"{flow.source}.{refused}", 1, 50)  # somebody else's records

    ended = subprocess.run(
        submit(host, config, "--mode", "drain"), capture_output=True, text=True, check=False
    )

    told = host.application(f"mirror-{flow.source}")
    assert ended.returncode == 5, ended.stderr[-3000:] + host.logs()
    assert host.attempts(told) == 1
    assert told["finalStatus"] == "FAILED"
    assert told["diagnostics"].startswith(f"exit code 5: flow {flow}: ")
    assert f"{flow.source}.{refused}" in told["diagnostics"]
    assert_copies(clusters, {topic_name: remote})


def test_a_configuration_error_that_only_the_driver_sees_is_not_tried_again(
    host: Hadoop, config: Path, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_MODE", "cluster")
    monkeypatch.setenv("ONLY_HERE", "mirror")  # YARN does not pass it on
    config.write_text(f"{config.read_text()}\nconsumer.client.id: ${{env:ONLY_HERE}}\n")

    ended = subprocess.run(
        submit(host, config, "--mode", "drain"), capture_output=True, text=True, check=False
    )

    told = host.application(f"mirror-{flow.source}")
    assert ended.returncode == 2, ended.stderr[-3000:] + host.logs()
    assert host.attempts(told) == 1
    assert told["diagnostics"].startswith("exit code 2: ")
    assert "ONLY_HERE" in told["diagnostics"]
