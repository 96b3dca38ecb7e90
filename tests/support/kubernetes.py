"""A stand-in for Kubernetes: keeps what Spark sends to the API server, and runs executors' pods.

A pod's container is a process of this machine, started by the image's entrypoint with the pod's
arguments and variables. No image, no network policy and no rights are enforced; `Access` says which
rights were used.
"""

import copy
import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from replication.demo.brokers import HOST
from tests.support.local import REPOSITORY
from tests.support.process_tree import family, kill

MANIFESTS = REPOSITORY / "conf" / "deploy" / "kubernetes"
ENTRYPOINT = MANIFESTS / "entrypoint.sh"
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
DONE = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}

Access = tuple[str, str]
"""A verb of RBAC and a resource, such as ``("create", "pods")``."""

Object = dict[str, Any]


class Kubernetes:
    """The API server's state, and the processes of the pods.

    Args:
        folder: For the logs of the pods.
        environment: The variables of the image, for its entrypoint.
        runs_pods: Whether to start what a pod's container would run.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], *, runs_pods: bool) -> None:
        self.access: set[Access] = set()
        self.sent: list[Object] = []
        self.lock = threading.RLock()
        self.objects: dict[tuple[str, str], Object] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder, self._environment, self._runs_pods = folder, environment, runs_pods
        self._version = 1
        self.url = ""

    def add_pod(self, name: str) -> None:
        """A pod that runs already, such as that of a driver in client mode."""
        with self.lock:
            pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}}
            self.objects["pods", name] = self._stamped(pod, _running())

    def write(self, plural: str, name: str, sent: Object) -> Object:
        """Creates or changes an object, and returns it."""
        with self.lock:
            old = self.objects.get((plural, name), {})
            self.sent.append(copy.deepcopy(sent))
            new = {**old, **{key: value for key, value in sent.items() if value}}
            new["metadata"] = {**old.get("metadata", {}), **sent.get("metadata", {}), "name": name}
            status = old.get("status", {})
            if plural == "pods" and not old:
                status = _running() if self._runs_pods else {"phase": "Succeeded"}
                if self._runs_pods:
                    self.processes[name] = self._start(name, new)
            self.objects[plural, name] = self._stamped(new, status)
            return self.objects[plural, name]

    def delete(self, plural: str, name: str) -> None:
        """Removes an object; a pod's processes are killed."""
        with self.lock:
            self.objects.pop((plural, name), None)
            if name in self.processes:
                kill(family(self.processes[name].pid))

    def listed(self, plural: str) -> list[Object]:
        """The objects of a kind, those of ended pods with their exit codes."""
        with self.lock:
            for name, process in self.processes.items():
                pod = self.objects.get(("pods", name))
                if pod and process.poll() is not None and pod["status"]["phase"] == "Running":
                    self.objects["pods", name] = self._stamped(pod, _ended(process.returncode))
            return [one for (kind, _), one in self.objects.items() if kind == plural]

    def stop(self) -> None:
        """Kills what runs."""
        for process in self.processes.values():
            kill(family(process.pid))
            process.wait()

    def _stamped(self, one: Object, status: Object) -> Object:
        self._version += 1
        metadata = {"uid": str(uuid.uuid4()), "namespace": "replication", **one["metadata"]}
        metadata["resourceVersion"] = str(self._version)
        return {**one, "metadata": metadata, "status": status}

    def _start(self, name: str, pod: Object) -> "subprocess.Popen[bytes]":
        container = pod["spec"]["containers"][0]
        fields = {"status.podIP": HOST, "metadata.name": name}
        variables = {
            entry["name"]: entry["value"]
            if "value" in entry
            else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for entry in container["env"]
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(ENTRYPOINT), *container["args"]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables, **self._environment},
                cwd=self._folder,
                start_new_session=True,
            )


def _running() -> Object:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "phase": "Running",
        "podIP": HOST,
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "executor", "ready": True, "state": state}],
    }


def _ended(code: int) -> Object:
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    return {
        "phase": "Failed" if code else "Succeeded",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [{"name": "executor", "ready": False, "state": state}],
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kubernetes: Kubernetes

    def do_GET(self) -> None:
        plural, name, query = self._parts()
        if "Upgrade" in self.headers:
            self._answer(200, {})  # no WebSocket here: the client asks again without
        elif "watch" in query:
            self.kubernetes.access.add(("watch", plural))
            self._watch(plural, query.get("fieldSelector", ""))
        elif plural == "version":
            self._answer(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.4"})
        elif name:
            self.kubernetes.access.add(("get", plural))
            self.kubernetes.listed(plural)
            found = self.kubernetes.objects.get((plural, name))
            self._answer(200 if found else 404, found or NOT_FOUND)
        else:
            self.kubernetes.access.add(("list", plural))
            items = self.kubernetes.listed(plural)
            head = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
            self._answer(200, {**head, "items": items})

    def _write(self) -> None:
        plural, name, _ = self._parts()
        sent = json.loads(self._body() or "{}")
        self.kubernetes.access.add((VERBS[self.command], plural))
        name = name or sent["metadata"]["name"]
        written = self.kubernetes.write(plural, name, sent)
        self._answer(201 if self.command == "POST" else 200, written)

    do_POST = do_PUT = do_PATCH = _write  # noqa: N815 - the library's names

    def do_DELETE(self) -> None:
        plural, name, query = self._parts()
        self._body()
        self.kubernetes.access.add(("delete" if name else "deletecollection", plural))
        selected = query.get("labelSelector", "")
        for one in [] if name else self.kubernetes.listed(plural):
            if _matches(one, selected):
                self.kubernetes.delete(plural, one["metadata"]["name"])
        if name:
            self.kubernetes.delete(plural, name)
        self._answer(200, DONE)

    def _watch(self, plural: str, field: str) -> None:
        """Sends each new state of an object, until the client goes away."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent: dict[str, str] = {}
        with suppress(OSError):
            while True:
                for one in self.kubernetes.listed(plural):
                    metadata = one["metadata"]
                    if field and field != f"metadata.name={metadata['name']}":
                        continue
                    if sent.get(metadata["name"]) != metadata["resourceVersion"]:
                        sent[metadata["name"]] = metadata["resourceVersion"]
                        raw = json.dumps({"type": "MODIFIED", "object": one}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
                self.wfile.flush()
                time.sleep(0.2)  # between two looks

    def _parts(self) -> tuple[str, str, dict[str, str]]:
        """The resource, the object's name if there is one, and the query."""
        url = urlparse(self.path)
        words = [word for word in url.path.split("/") if word]
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if "namespaces" in words:
            words = words[words.index("namespaces") + 2 :]
        return words[0], (words[1] if len(words) > 1 else ""), query

    def _body(self) -> str:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def _answer(self, code: int, document: Object) -> None:
        raw = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def _matches(one: Object, selector: str) -> bool:
    labels = one["metadata"].get("labels", {})
    pairs = [pair.partition("=") for pair in selector.split(",") if "=" in pair]
    return all(labels.get(key) == value for key, _, value in pairs)


@contextmanager
def kubernetes(
    folder: Path, environment: Mapping[str, str] | None = None, *, runs_pods: bool = False
) -> Iterator[Kubernetes]:
    """A stand-in for the block; arguments as of `Kubernetes`."""
    folder.mkdir(parents=True, exist_ok=True)
    state = Kubernetes(folder, environment or {}, runs_pods=runs_pods)
    server = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"kubernetes": state}))
    server.daemon_threads = True
    state.url = f"k8s://http://{HOST}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, name="kubernetes", daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        state.stop()
