"""spark-submit sends pods to Kubernetes, and the image's entrypoint runs the job in them.

There is no cluster: see tests/support/kubernetes.py for what stands in its place.
"""

import os
import signal
import subprocess
from pathlib import Path

import pyspark
import pytest

from replication.config.home import OUR_JAR
from replication.demo.topic_log import log_ends
from replication.spark.session import QUICK_COMPILER
from tests.support.kubernetes import ENTRYPOINT, MANIFESTS, Access, kubernetes
from tests.support.local import PYTHON, REPOSITORY, SCRIPT, Clusters, Until, jars
from tests.support.manifests import one, rendered
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_equal, copied, fill

RECORDS = 300_000
PARTITIONS = 2
SECONDS = 240.0
END_SECONDS = 600.0


@pytest.mark.job
@pytest.mark.cluster
def test_cluster_mode_sends_a_pod_that_needs_nothing_of_this_machine(
    clusters: Clusters, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)  # a session of this process has set it
    more = {"state.dir": "hdfs://namenode:8020/replication"}
    config = write_config(tmp_path, clusters, topic_name, more)
    settings = {
        "spark.kubernetes.container.image": "registry.example.com/replication:0.1.0",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "replication",
    }
    given = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]

    with kubernetes(tmp_path / "kubernetes") as cluster:
        answer = subprocess.run(
            [SCRIPT, "--config", config, "--mode", "drain", "--", *given],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MASTER": cluster.url, "DEPLOY_MODE": "cluster"},
        )
        sent = {document["kind"]: document for document in cluster.sent}

    assert answer.returncode == 0, answer.stderr[-3000:]
    (container,) = sent["Pod"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/replication:0.1.0"
    assert container["args"][0] == "driver"
    assert container["args"][-5:] == [
        *("local:///opt/replication/jobs/mirror.py", "--config", "/etc/replication/mirror.yaml"),
        *("--mode", "drain"),
    ]
    assert sent["Pod"]["metadata"]["name"].startswith("mirror-mirror-")
    everything = str(cluster.sent)
    assert str(REPOSITORY) not in everything
    assert str(tmp_path) not in everything


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of the image, and its files as the Dockerfile arranges them."""
    root = tmp_path_factory.mktemp("image")
    spark = Path(pyspark.__file__).parent
    (root / "spark" / "jars").mkdir(parents=True)
    for name in ("bin", "python"):
        (root / "spark" / name).symlink_to(spark / name)
    connectors = jars("spark", override="SPARK_JARS").glob("*.jar")
    for jar in (*(spark / "jars").glob("*.jar"), *connectors, OUR_JAR):
        (root / "spark" / "jars" / jar.name).symlink_to(jar)
    (root / "bin").mkdir()
    tini = root / "bin" / "tini"  # not on every machine; here nothing has to be reaped
    tini.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    tini.chmod(0o755)
    return {
        "SPARK_HOME": str(root / "spark"),
        "REPLICATION_FILES": str(root),
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "PYSPARK_PYTHON": str(PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(PYTHON),
        "DRIVER_MEMORY": "700m",
    }


@pytest.fixture
def image_files(image: dict[str, str]) -> None:
    root = Path(image["REPLICATION_FILES"])
    if not (root / "jobs").exists():
        (root / "jobs").symlink_to(REPOSITORY / "jobs")
        (root / "log4j2.properties").symlink_to(REPOSITORY / "conf" / "log4j2.properties")


def rights(overlay: str) -> set[Access]:
    return {
        (verb, resource)
        for rule in one(rendered(overlay), "Role")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.soak
@pytest.mark.job
@pytest.mark.cluster
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("image_files")
def test_a_driver_pod_with_executor_pods_copies_all_although_one_of_them_dies(
    clusters: Clusters,
    image: dict[str, str],
    tmp_path: Path,
    topic_name: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(clusters[0], topic_name, PARTITIONS, RECORDS)
    config = write_config(tmp_path, clusters, topic_name, {"groups": [topic_name]})
    settings = dict(
        line.split() for line in (MANIFESTS / "base/spark.properties").read_text().splitlines()
        if line.startswith("spark.")
    ) | {
        "spark.executor.memory": "600m",
        "spark.executor.cores": "2",
        "spark.driver.defaultJavaOptions": QUICK_COMPILER,
        "spark.executor.extraJavaOptions": QUICK_COMPILER,
        "spark.kubernetes.executor.podTemplateFile": str(MANIFESTS / "base/executor-pod.yaml"),
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.ui.enabled": "false",
    }  # fmt: skip
    properties = tmp_path / "spark.properties"
    properties.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    log = tmp_path / "driver.log"

    with kubernetes(tmp_path / "pods", image, runs_pods=True) as cluster:
        cluster.add_pod("mirror-0")
        pod = {"POD_IP": "127.0.0.1", "POD_NAME": "mirror-0", "MASTER": cluster.url}
        for name, value in {**image, **pod, "SPARK_SETTINGS": str(properties)}.items():
            monkeypatch.setenv(name, value)
        command = [str(ENTRYPOINT), "mirror", "--config", str(config), "--mode", "drain"]
        with RunningProcess("driver", command, log) as driver:
            until(driver.while_running(lambda: copied(clusters, topic_name)), SECONDS)
            victim = next(
                process for process in cluster.processes.values() if process.poll() is None
            )
            kill(family(victim.pid))
            at_kill = copied(clusters, topic_name)
            code = driver.wait(END_SECONDS)
        pods = len(cluster.processes)

    assert code == 0, log.read_text()[-3000:]
    assert at_kill < RECORDS, "the copy was over before the executor was killed"
    assert pods >= 3, "two executors, and one in place of the one that died"
    assert cluster.access <= rights("continuous")
    assert_equal(clusters, topic_name)


@pytest.mark.soak
@pytest.mark.job
@pytest.mark.cluster
@pytest.mark.usefixtures("image_files")
def test_the_signal_of_a_deleted_pod_stops_the_job_cleanly(
    clusters: Clusters,
    image: dict[str, str],
    tmp_path: Path,
    topic_name: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(clusters[0], topic_name, PARTITIONS, 1000)
    config = write_config(tmp_path, clusters, topic_name, {"groups": [topic_name]})
    for name, value in {**image, "MASTER": "local[12]"}.items():
        monkeypatch.setenv(name, value)
    log = tmp_path / "driver.log"

    with RunningProcess("driver", [str(ENTRYPOINT), "mirror", "--config", str(config)], log) as job:
        until(job.while_running(lambda: copied(clusters, topic_name) == 1000), SECONDS)
        os.kill(job.pid, signal.SIGTERM)
        code = job.wait(END_SECONDS)

    assert code == 0, log.read_text()[-3000:]
    assert "event=flow_ended" in log.read_text()
    assert log_ends(clusters[1].bootstrap, [f"A.{topic_name}"]) == {f"A.{topic_name}": 1000}
