"""Kubernetes manifests fit their schemas, need few rights, and retry what a retry may mend."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubernetes import MANIFESTS
from tests.support.manifests import one, rendered

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
    workload = next(found for found in objects if found["kind"] in {"Deployment", "CronJob"})
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
