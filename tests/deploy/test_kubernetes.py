"""Kubernetes: the manifests by their schemas, what spark-submit sends, and the image's entrypoint.

There is no cluster: see tests/support/kubernetes.py for what stands in its place.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from replication.config.home import OUR_JAR
from replication.demo.topic_log import log_ends
from replication.spark.session import QUICK_COMPILER
from tests.support.kubernetes import ENTRYPOINT, MANIFESTS, Access, kubernetes
from tests.support.local import PYTHON, REPOSITORY, SCRIPT, Clusters, Until, jars
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_equal, copied, fill

OVERLAYS = ("continuous", "drain", "one-pod")
VERSION = "1.34"
CRD = (
    "go mod download -json github.com/kubeflow/spark-operator/v2@v2.4.0 says where it is, below "
    "config/crd/bases"
)
RECORDS = 300_000
PARTITIONS = 2
SECONDS = 240.0
END_SECONDS = 600.0


def rendered(overlay: str) -> list[dict[str, Any]]:
    """The objects that ``kubectl apply -k`` would create."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which renders the overlays")
    command = ["kubectl", "kustomize", str(MANIFESTS / "overlays" / overlay)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(answer.stdout))


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (document for document in objects if document["kind"] == kind)
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_of_an_overlay_fits_its_schema(overlay: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate")

    for document in rendered(overlay):
        schemas.validate(document, VERSION, strict=True)  # raises


def test_the_operators_resource_fits_its_definition() -> None:
    """The definition is too large to be kept here: SPARK_OPERATOR_CRD names a file with it."""
    jsonschema = pytest.importorskip("jsonschema")
    if not (crd := os.environ.get("SPARK_OPERATOR_CRD")):
        pytest.skip(f"needs the definition of SparkApplication in SPARK_OPERATOR_CRD: {CRD}")
    definition = yaml.safe_load(Path(crd).read_text())
    resource = yaml.safe_load((MANIFESTS / "operator" / "sparkapplication.yaml").read_text())
    group, _, version = resource["apiVersion"].partition("/")
    (served,) = [one for one in definition["spec"]["versions"] if one["name"] == version]

    assert (group, resource["kind"]) == (
        definition["spec"]["group"],
        definition["spec"]["names"]["kind"],
    )
    jsonschema.validate(resource, closed(served["schema"]["openAPIV3Schema"]))  # raises


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """*schema* without place for fields that it does not name: the API server drops them."""
    result = {
        key: {name: closed(part) for name, part in value.items()}
        if key == "properties"
        else closed(value)
        if isinstance(value, dict)
        else value
        for key, value in schema.items()
    }
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    return result


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_may_run_where_the_restricted_standard_is_enforced(overlay: str) -> None:
    objects = rendered(overlay)
    workload = next(it for it in objects if it["kind"] in {"Deployment", "CronJob"})
    spec = workload["spec"]
    template = (spec if workload["kind"] == "Deployment" else spec["jobTemplate"]["spec"])[
        "template"
    ]

    assert one(objects, "Namespace")["metadata"]["labels"] == {
        "app.kubernetes.io/name": "replication",
        "pod-security.kubernetes.io/enforce": "restricted",
    }
    executor = yaml.safe_load((MANIFESTS / "base/executor-pod.yaml").read_text())
    for pod in (template["spec"], executor["spec"]):
        (container,) = pod["containers"]
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 185,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    assert template["metadata"]["labels"]["replication/part"] == "spark"  # of the network policy


def test_only_failures_that_a_retry_may_mend_are_tried_again() -> None:
    policy = one(rendered("drain"), "CronJob")["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]

    assert policy["rules"][0]["action"] == "FailJob"
    assert policy["rules"][0]["onExitCodes"]["values"] == [2, 5]


def test_one_pod_has_no_rights_at_the_api_server() -> None:
    objects = rendered("one-pod")

    assert {document["kind"] for document in objects} & {"Role", "RoleBinding"} == set()
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    accounts = {
        document["metadata"]["name"]: document.get("automountServiceAccountToken", True)
        for document in objects
        if document["kind"] == "ServiceAccount"
    }
    assert accounts[pod["serviceAccountName"]] is False


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
            victim = next(it for it in cluster.processes.values() if it.poll() is None)
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
