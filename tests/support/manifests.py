"""The manifests for Kubernetes, as kubectl renders them."""

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.kubernetes import MANIFESTS


def rendered(overlay: str) -> list[dict[str, Any]]:
    """The objects that ``kubectl apply -k`` would create."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which renders the overlays")
    command = ["kubectl", "kustomize", str(MANIFESTS / "overlays" / overlay)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(answer.stdout))


def one(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The only one of *objects* that is of this kind, and has this *name* if one is given."""
    (found,) = (
        document
        for document in objects
        if document["kind"] == kind and name in {"", document["metadata"]["name"]}
    )
    return found


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pods that *objects* describe, by the name of their Deployment or CronJob."""
    specs = {
        document["metadata"]["name"]: document["spec"]
        for document in objects
        if document["kind"] in {"Deployment", "CronJob"}
    }
    return {
        name: (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]
        for name, spec in specs.items()
    }
