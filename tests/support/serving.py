"""Serves observations as `replication serve` does, in this process, and asks it as a client."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from replication.config.file import load
from replication.config.tree import MirrorConfig
from replication.figures.histogram import Histogram
from replication.figures.observation import (
    ClusterFigures,
    Condition,
    GroupFigures,
    Observation,
    Owner,
    PartitionFigures,
    TopicFigures,
)
from replication.model import Flow
from replication.serve.app import Parts, build_app
from replication.serve.questions import Questions
from replication.serve.run import Server, open_listener
from replication.serve.snapshots import FlowSnapshot, FlowSnapshots, History
from replication.serve.tokens import follow_tokens

AB = Flow("A", "B")
GROUPS = ("billing", "a/b", "with space", "grün-日本", "..", "%2F?#&=")
EVIL = "<script>alert(1)</script>"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it is
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Served:
    """A server, by its address; *tls* is whom its clients trust, and who they are.

    *patience* is for how many seconds an answer is waited for.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    patience: float = 30

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        connection = (
            http.client.HTTPSConnection(self.host, timeout=self.patience, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(self.host, timeout=self.patience)
        )
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read().decode())
        finally:
            connection.close()


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def bearer(token: str) -> dict[str, str]:
    """The header of whoever has *token*."""
    return {"Authorization": f"Bearer {token}"}


def submit(served: Served, token: str, path: str, **fields: str) -> Reply:
    """Sends a form of a page, as whoever has *token*."""
    page = served.ask("/flows/A/B", headers=bearer(token)).text
    ours = page.partition('name="form_token" value="')[2].partition('"')[0]
    body = urlencode({"form_token": ours, **fields})
    return served.ask(path, "POST", body, {**FORM, **bearer(token)})


def observed(topics: int = 3, partitions: int = 2, **other: Any) -> Observation:  # noqa: ANN401
    """An observation of A->B with all kinds of figures, made of small numbers."""
    now = time.time()
    return Observation(
        AB,
        now,
        **{
            "state": "running",
            "since": now - 500,
            "conditions": (
                Condition("set-aside", "bad", now - 60, f"audit: {EVIL}", "accept it", "audit"),
            ),
            "owner": Owner("etl-7", 4211, now - 500),
            "epoch": 3,
            "mode": "realtime",
            "runs": "mirror",
            "generation": 3,
            "version": "1",
            "figures": {
                "lag_seconds": 0.6,
                "lag_records": 412.0,
                "records_per_second": 10_213.4,
                "bytes_per_second": 1.5e6,
                "rpo_seconds": 0.6,
                "records_total": 812_345_678.0,
            },
            "histograms": {"latency_seconds": Histogram.of([5] * 10 + [0] * 9, 3.0)},
            "quantiles": {"latency_seconds": {"p50": 0.02, "p99": 0.6, "p999": 0.9, "max": 1.0}},
            "labelled": {"partitions": {"copying": 318, "lagging": 1}},
            "topics": tuple(_topic(number, partitions) for number in range(topics)),
            "groups": tuple(
                GroupFigures(name, {"group_lag_records": 5.0}, {"exact": 7, "bounded": 1})
                for name in GROUPS
            ),
            "clusters": (ClusterFigures("A", True, now, 0.01), ClusterFigures("B", False, now)),
            **other,
        },
    )


def _topic(number: int, partitions: int) -> TopicFigures:
    lag = float(number % 7)
    return TopicFigures(
        f"orders-{number:05}",
        f"A.orders-{number:05}",
        "lagging" if lag else "copying",
        "",
        {"lag_records": lag, "lag_seconds": lag / 2, "records_total": 10.0 * number},
        {},
        tuple(
            PartitionFigures(at, "copying", {"position": 10.0 * at, "lag_records": lag})
            for at in range(partitions)
        ),
    )


@contextmanager
def serving(
    folder: Path,
    look: Callable[[Flow], FlowSnapshot],
    settings: Sequence[str] = (),
    asking: Callable[[MirrorConfig], Questions] = Questions,
) -> Iterator[Served]:
    """Serves what *look* tells of A->B, with further *settings*, lines of the file.

    *asking* makes what asks clusters and tables.
    """
    lines = (
        "clusters: [A, B]",
        "A.bootstrap.servers: 127.0.0.1:1",
        "B.bootstrap.servers: 127.0.0.1:2",
        "A->B.enabled: true",
        "rest.port: 0",
        *settings,
    )
    file = folder / "mirror.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    with serving_file(file, look, asking) as served:
        yield served


@contextmanager
def serving_file(
    file: Path,
    look: Callable[[Flow], FlowSnapshot],
    asking: Callable[[MirrorConfig], Questions] = Questions,
) -> Iterator[Served]:
    """Serves what *look* tells of the flows of *file*."""
    config = load(file, environ={}, default_state_dir=str(file.parent / "state"))
    snapshots = FlowSnapshots([flow.flow for flow in config.flows], look)
    questions = asking(config)
    parts = Parts(snapshots, questions, History(snapshots, questions.figures))
    tokens = follow_tokens(config.serve.tokens_file)
    listener = open_listener(config.serve)
    with listener.socket:
        app = build_app(parts, config.serve, tokens, "1")
        server = Server(app, config.serve, listener)
        thread = threading.Thread(target=server.run, name="serve")
        thread.start()
        try:
            yield Served(listener.url.removesuffix("/"))
        finally:
            server.end()
            thread.join()
