"""Kubernetes manifests fit their schemas, need few rights, and retry what a retry may mend."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.kubernetes import MANIFESTS
from tests.support.manifests import one, pods, rendered
from tests.support.serving import Served, serving_file

OVERLAYS = ("continuous", "drain", "one-pod")
VERSION = "1.34"
CRD = (
    "go mod download -json github.com/kubeflow/spark-operator/v2@v2.4.0 says where it is, below "
    "config/crd/bases"
)


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
    templates = pods(objects)

    assert one(objects, "Namespace")["metadata"]["labels"] == {
        "app.kubernetes.io/name": "replication",
        "pod-security.kubernetes.io/enforce": "restricted",
    }
    executor = yaml.safe_load((MANIFESTS / "base/executor-pod.yaml").read_text())
    for pod in (*(template["spec"] for template in templates.values()), executor["spec"]):
        (container,) = pod["containers"]
        own = {name: value for name, value in pod["securityContext"].items() if name != "fsGroup"}
        assert own == {
            "runAsNonRoot": True,
            "runAsUser": 185,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    parts = {
        name: template["metadata"]["labels"]["replication/part"]  # of the network policies
        for name, template in templates.items()
    }
    assert parts == {**dict.fromkeys(templates, "spark"), "replication-serve": "serve"}


def test_only_failures_that_a_retry_may_mend_are_tried_again() -> None:
    policy = one(rendered("drain"), "CronJob")["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]

    assert policy["rules"][0]["action"] == "FailJob"
    assert policy["rules"][0]["onExitCodes"]["values"] == [2, 5]


def test_one_pod_has_no_rights_at_the_api_server() -> None:
    objects = rendered("one-pod")

    assert {document["kind"] for document in objects} & {"Role", "RoleBinding"} == set()
    accounts = {
        document["metadata"]["name"]: document.get("automountServiceAccountToken", True)
        for document in objects
        if document["kind"] == "ServiceAccount"
    }
    used = [template["spec"]["serviceAccountName"] for template in pods(objects).values()]
    assert [accounts[name] for name in used] == [False, False]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_probes_of_serve_are_answered_by_the_file_of_the_manifests(
    overlay: str, tmp_path: Path
) -> None:
    objects = rendered(overlay)
    pod = pods(objects)["replication-serve"]["spec"]
    (container,) = pod["containers"]
    text = one(objects, "ConfigMap")["data"]["mirror.yaml"]
    named = "/etc/replication-serve/tokens"
    assert f"rest.tokens.file: {named}\n" in text
    assert container["args"] == ["replication", "serve", "/etc/replication/mirror.yaml"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/replication", str(Path(named).parent)}
    made, secret = new_token("ann", "read")
    tokens = tmp_path / "tokens"
    tokens.touch()
    tokens.chmod(pod["volumes"][1]["secret"]["defaultMode"])
    tokens.write_text(made.line(), encoding="utf-8")
    file = tmp_path / "mirror.yaml"
    file.write_text(f"{text.replace(named, str(tokens))}\nrest.port: 0\n", encoding="utf-8")

    with serving_file(file, FlowSnapshot) as served:
        port = served.host.rpartition(":")[2]
        here = Served(f"http://127.0.0.1:{port}", {"Host": f"10.0.0.7:{port}"})
        assert here.ask("/livez").status == 421, "the kubelet's own way to ask"
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container[name]["httpGet"]
            headers = {header["name"]: header["value"] for header in probe["httpHeaders"]}
            assert here.ask(probe["path"], headers=headers).status == 200
        service = one(objects, "Service", "replication-serve")
        asked = {"Host": service["metadata"]["name"], "Authorization": f"Bearer {secret}"}
        assert here.ask("/api/v1/flows", headers=asked).json["total"] == 1
        assert here.ask("/api/v1/flows", headers={"Host": "localhost"}).status == 401
    assert service["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"] == 6670
